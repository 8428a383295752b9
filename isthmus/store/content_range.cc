#include "isthmus/store/content_range.h"

#include <charconv>
#include <limits>

#include "isthmus/base/error.h"

namespace isthmus::store {

std::optional<uint64_t> ParseSize(std::string_view digits) {
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return size;
}

std::optional<ContentRange> ParseContentRange(std::string_view value) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t dash = value.find('-');
  const size_t slash = value.find('/');
  if (!value.starts_with(kUnit) || dash == std::string_view::npos ||
      slash == std::string_view::npos || dash > slash) {
    return std::nullopt;
  }
  const auto first = ParseSize(value.substr(kUnit.size(), dash - kUnit.size()));
  const auto last = ParseSize(value.substr(dash + 1, slash - dash - 1));
  const auto total = ParseSize(value.substr(slash + 1));
  if (!first || !last || !total || *first > *last || *last >= *total) return std::nullopt;
  return ContentRange{*first, *last - *first + 1, *total};
}

std::optional<ContentRange> RangeOf(const HttpAnswer& head) {
  const std::optional<uint64_t> length = ParseSize(head.Header("content-length"));
  if (head.status != 206) {
    return length ? std::optional(ContentRange{0, *length, *length}) : std::nullopt;
  }
  const std::string_view value = head.Header("content-range");
  const auto range = ParseContentRange(value);
  if (!range || (length && *length != range->length)) {
    Throw(ErrorCode::kCorrupt,
          "the answer to a range has Content-Range {:?} and Content-Length {:?}",
          value.substr(0, 100), head.Header("content-length").substr(0, 100));
  }
  return range;
}

}  // namespace isthmus::store
