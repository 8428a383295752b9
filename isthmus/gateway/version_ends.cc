#include "isthmus/gateway/version_ends.h"

#include <algorithm>
#include <charconv>

namespace isthmus::gateway {
namespace {

constexpr std::string_view kKey = R"("weight_version_end":)";
constexpr std::string_view kDigits = "0123456789";
constexpr size_t kMaxDigits = 10;

}  // namespace

board::VersionNumber VersionEnds::Feed(std::string_view piece) {
  if (rest_.empty()) return Find(piece);
  std::string text = std::move(rest_);
  rest_.clear();
  text += piece;
  return Find(text);
}

board::VersionNumber VersionEnds::Find(std::string_view text) {
  board::VersionNumber version = board::kNoVersion;
  // A line that has ended is whole, and most pieces are whole lines.
  const bool whole = text.ends_with('\n');
  size_t at = text.rfind(kKey);
  if (at != text.npos && !whole) {
    const size_t number = at + kKey.size();
    const bool open = text.find_first_not_of(kDigits, number) == text.npos;
    if (open && text.size() - number < kMaxDigits) {
      rest_ = text.substr(at);
      at = at == 0 ? text.npos : text.rfind(kKey, at - 1);
    }
  }
  if (at != text.npos) {
    text.remove_prefix(at + kKey.size());
    std::from_chars(text.data(), text.data() + text.size(), version);
  }
  if (whole || !rest_.empty()) return version;
  rest_ = text.substr(text.size() - std::min(text.size(), kKey.size() - 1));
  return version;
}

}  // namespace isthmus::gateway
