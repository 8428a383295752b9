// What a request target asks of a relay (docs/relay.md, "Routes"). Pure.
#ifndef ISTHMUS_RELAY_TARGET_H_
#define ISTHMUS_RELAY_TARGET_H_

#include <chrono>
#include <string>
#include <string_view>
#include <variant>

#include "isthmus/board/manifest.h"

namespace isthmus::relay {

struct HealthTarget {};
struct MetricsTarget {};
struct ObjectTarget {
  std::string key;  // a key, of whatever kind
};
struct ListTarget {
  std::string prefix;  // decoded, whatever is in it: what no key begins with has no keys
};
struct WatchTarget {
  std::string run;
  board::VersionNumber after = board::kNoVersion;
  std::chrono::milliseconds timeout{30'000};
};

using Target = std::variant<HealthTarget, MetricsTarget, ObjectTarget, ListTarget, WatchTarget>;

constexpr std::chrono::milliseconds kLongestWatch{300'000};

// kInvalid for whatever could be read in two ways or names no key: escapes that are malformed or
// hide '/', '.' at a segment's beginning, unknown or repeated parameters, absolute forms.
Target ParseTarget(std::string_view target);

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_TARGET_H_
