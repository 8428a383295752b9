// Which payloads bring a replica to a version most cheaply. Pure: no I/O.
#ifndef ISTHMUS_REPLICA_PLANNER_H_
#define ISTHMUS_REPLICA_PLANNER_H_

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "isthmus/board/manifest.h"

namespace isthmus::replica {

// A payload that can be used: `index` is its place in the manifest of `version`.
struct PlannedPayload {
  board::VersionNumber version = board::kNoVersion;
  size_t index = 0;
  auto operator<=>(const PlannedPayload&) const = default;
};

struct Plan {
  // In the order of application. An anchor, if there is one, comes first and replaces everything.
  std::vector<PlannedPayload> payloads;
  bool from_anchor = false;
  uint64_t fetch_bytes = 0;
};

// The cheapest chain from `held` (kNoVersion: nothing) to `target` over the payloads of
// `manifests` (of one run, any order), without those in `unusable`. The price of a payload is its
// bytes plus kPassPriceBytes (nothing for an empty version); equal prices prefer fewer payloads,
// then patches over anchors. nullopt if no chain exists. An empty plan if held == target.
std::optional<Plan> MakePlan(const std::vector<board::Manifest>& manifests,
                             board::VersionNumber held, board::VersionNumber target,
                             const std::set<PlannedPayload>& unusable = {});

// What one more payload costs beside its bytes: a request and a round trip, about 50 ms, at the
// 10 Gbit/s of an ordinary link between regions.
inline constexpr uint64_t kPassPriceBytes = uint64_t{62'500'000};

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_PLANNER_H_
