// The fleet as routing sees it at one instant: plain values, made by the pool, read by the router.
#ifndef ISTHMUS_GATEWAY_SNAPSHOT_H_
#define ISTHMUS_GATEWAY_SNAPSHOT_H_

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/board/manifest.h"

namespace isthmus::gateway {

using board::kNoVersion;
using board::VersionNumber;

// docs/gateway.md, "States".
enum class IslandState : uint8_t { kReady, kStaging, kCommitting, kDraining, kSuspect, kGone };
std::string_view IslandStateName(IslandState state);  // "ready", …

// Where an island stands in every session's order: the same in all gateways, for it is made of the
// island's id alone.
uint64_t PlacementOf(std::string_view island_id);

// The run of an island that has not said its run.
inline constexpr uint32_t kNoRun = std::numeric_limits<uint32_t>::max();

struct IslandView {
  uint64_t placement = 0;  // PlacementOf(id)
  VersionNumber served = kNoVersion;
  VersionNumber target = kNoVersion;  // that it stages or loads; kNoVersion: none
  uint32_t run = kNoRun;              // its place in Snapshot::runs
  uint32_t in_flight = 0;             // from this gateway
  uint32_t limit = std::numeric_limits<uint32_t>::max();  // most in flight from this gateway
  float share = 1;  // of a whole island's load: above 0, below 1 during its slow start
  IslandState state = IslandState::kGone;
  // The breaker is open, or half open with its one request under way: nothing more is sent.
  bool blocked = false;
};

struct RunView {
  std::string name;                   // empty: no island is of it any more
  VersionNumber newest = kNoVersion;  // that any island knows of and that is not revoked
};

struct Snapshot {
  std::vector<IslandView> islands;  // an island's place is its handle as long as it is known
  std::vector<RunView> runs;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_SNAPSHOT_H_
