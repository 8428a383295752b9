// The simulated board: which payloads each version has, and the planner's choice among them.
#ifndef ISTHMUS_SIM_PAYLOADS_H_
#define ISTHMUS_SIM_PAYLOADS_H_

#include <map>
#include <utility>
#include <vector>

#include "isthmus/replica/planner.h"
#include "isthmus/sim/scenario.h"

namespace isthmus::sim {

using board::kNoVersion;
using board::VersionNumber;

class Payloads {
 public:
  // The scenario must outlive it. Holds version 1, an anchor.
  explicit Payloads(const Scenario& scenario);

  VersionNumber head() const { return manifests_.back().version; }
  // The bytes that the publisher uploads for the version after the head, and adds with Publish.
  uint64_t NextBytes() const;
  void Publish();

  // replica::MakePlan among all that is published; made once for each pair. The reference lives
  // until the next Publish.
  const replica::Plan& PlanFor(VersionNumber held, VersionNumber target);
  uint64_t BytesOf(const replica::PlannedPayload& payload) const;

 private:
  board::Manifest Next() const;
  board::Payload Anchor() const;
  board::Payload Patch(VersionNumber base, VersionNumber version) const;
  std::vector<board::Manifest> Window(VersionNumber held, VersionNumber target) const;

  const Scenario& scenario_;
  std::vector<board::Manifest> manifests_;  // that of version v in place v - 1
  std::map<std::pair<VersionNumber, VersionNumber>, replica::Plan> plans_;
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_PAYLOADS_H_
