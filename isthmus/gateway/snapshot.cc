#include "isthmus/gateway/snapshot.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace isthmus::gateway {

std::string_view IslandStateName(IslandState state) {
  switch (state) {
    case IslandState::kReady:
      return "ready";
    case IslandState::kStaging:
      return "staging";
    case IslandState::kCommitting:
      return "committing";
    case IslandState::kDraining:
      return "draining";
    case IslandState::kSuspect:
      return "suspect";
    case IslandState::kGone:
      return "gone";
  }
  return "";
}

uint64_t PlacementOf(std::string_view island_id) {
  return XXH3_64bits(island_id.data(), island_id.size());
}

}  // namespace isthmus::gateway
