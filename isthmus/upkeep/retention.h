// Which versions of a run stay, and which payloads they need. Pure.
#ifndef ISTHMUS_UPKEEP_RETENTION_H_
#define ISTHMUS_UPKEEP_RETENTION_H_

#include <chrono>
#include <map>
#include <set>
#include <vector>

#include "isthmus/replica/planner.h"
#include "isthmus/upkeep/inventory.h"

namespace isthmus::upkeep {

struct RetentionPolicy {
  uint64_t keep_last = 50;  // versions, at least 1: the newest always stays
  // Every version whose number is a multiple; 0: none for that reason.
  uint64_t keep_every = 0;
  std::chrono::seconds keep_younger = std::chrono::hours(24);
};

struct Retention {
  // Versions that stay, each with the payloads of a chain from nothing to it.
  std::map<board::VersionNumber, replica::Plan> kept;
  // Payloads that stay, and those that go; places as in Inventory::WithExtras.
  std::set<replica::PlannedPayload> keep;
  std::set<replica::PlannedPayload> remove;
  // Versions that the policy keeps and no chain leads to.
  std::vector<board::VersionNumber> unreachable;
};

// What nobody may take away, whatever the policy is.
struct Claims {
  std::vector<board::Pin> pins;
  std::set<std::string> forked;  // objects that other runs begin with
};

// What stays: the versions that the policy names and those claimed: pinned until after `now`, or
// with an anchor that another run begins with. Of their payloads the cheapest chain to each, every
// patch from one kept version to another, so that readers go on from where they are, and the
// anchors of claimed versions, for who claims one may be about to fork it. `manifests` as
// Inventory::WithExtras, oldest first.
Retention PlanRetention(const std::vector<board::Manifest>& manifests, const Claims& claims,
                        const RetentionPolicy& policy, WallTime now);

}  // namespace isthmus::upkeep

#endif  // ISTHMUS_UPKEEP_RETENTION_H_
