#include "isthmus/sidecar/goal.h"

#include <algorithm>

namespace isthmus::sidecar {

using board::kNoVersion;
using board::VersionNumber;

VersionNumber ChooseGoal(const GoalInputs& inputs, const std::set<VersionNumber>& revoked,
                         const std::set<VersionNumber>& unloadable) {
  const VersionNumber newest = std::max(inputs.head, inputs.served);
  const auto usable = [&](VersionNumber version) {
    return version != kNoVersion && version <= newest && !revoked.contains(version) &&
           !unloadable.contains(version);
  };
  if (inputs.island_pin != kNoVersion) {
    return usable(inputs.island_pin) ? inputs.island_pin : kNoVersion;
  }
  if (inputs.wanted_exactly > inputs.served && usable(inputs.wanted_exactly)) {
    return inputs.wanted_exactly;
  }
  VersionNumber goal = newest;
  while (goal != kNoVersion && !usable(goal)) --goal;
  return goal;
}

}  // namespace isthmus::sidecar
