#include "isthmus/relay/selection.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace isthmus::relay {
namespace {

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();

// Digits only; a number beyond 64 bits is as good as the largest.
std::optional<uint64_t> ReadPosition(std::string_view text) {
  if (text.empty()) return std::nullopt;
  uint64_t number = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<uint64_t>(c - '0');
    number = number > (kHuge - digit) / 10 ? kHuge : number * 10 + digit;
  }
  return number;
}

// The part that "FIRST-LAST", "FIRST-" or "-COUNT" means; nullopt if it is none of these.
std::optional<Selection> ReadRange(std::string_view spec, uint64_t size) {
  const size_t dash = spec.find('-');
  if (dash == spec.npos) return std::nullopt;
  const std::string_view left = spec.substr(0, dash), right = spec.substr(dash + 1);
  const auto first = ReadPosition(left), last = ReadPosition(right);
  if ((!first && !left.empty()) || (!last && !right.empty()) || (!first && !last)) {
    return std::nullopt;
  }
  if (!first) {
    const uint64_t bytes = std::min(*last, size);
    return bytes == 0 ? Selection{416, 0, 0} : Selection{206, size - bytes, bytes};
  }
  if (last && *last < *first) return std::nullopt;
  if (*first >= size) return Selection{416, 0, 0};
  return Selection{206, *first, std::min(last.value_or(kHuge), size - 1) - *first + 1};
}

// Whether a list of tags under `name` has this one. Weak tags are as good where `weak` says so.
bool TagsMatch(const net::Headers& headers, std::string_view name, std::string_view etag,
               bool weak) {
  for (size_t i = 0; i < headers.size(); ++i) {
    if (!net::EqualsIgnoreCase(headers[i].name, name)) continue;
    for (std::string_view rest = headers[i].value; !rest.empty();) {
      std::string_view one = net::TrimBlanks(rest.substr(0, rest.find(',')));
      rest.remove_prefix(std::min(rest.find(','), rest.size() - 1) + 1);
      if (weak && one.starts_with("W/")) one.remove_prefix(2);
      if (one == "*" || one == etag) return true;
    }
  }
  return false;
}

std::optional<std::string_view> RangeOf(const net::RequestHead& request, std::string_view etag) {
  constexpr std::string_view kUnit = "bytes=";
  const auto range = request.headers.Find("range");
  if (request.method != "GET" || !range || request.headers.Count("range") != 1) return std::nullopt;
  const auto condition = request.headers.Find("if-range");
  if (condition && (*condition != etag || request.headers.Count("if-range") != 1)) {
    return std::nullopt;
  }
  if (!net::EqualsIgnoreCase(range->substr(0, kUnit.size()), kUnit)) return std::nullopt;
  return net::TrimBlanks(range->substr(kUnit.size()));
}

}  // namespace

Selection Select(const net::RequestHead& request, uint64_t size, std::string_view etag) {
  const net::Headers& headers = request.headers;
  if (headers.Find("if-match") && !TagsMatch(headers, "if-match", etag, false)) return {412, 0, 0};
  if (TagsMatch(headers, "if-none-match", etag, true)) return {304, 0, 0};
  if (const auto range = RangeOf(request, etag)) {
    if (const auto part = ReadRange(*range, size)) return *part;
  }
  return {200, 0, size};
}

}  // namespace isthmus::relay
