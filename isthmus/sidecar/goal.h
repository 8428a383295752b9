// Which version an island should serve. Pure.
#ifndef ISTHMUS_SIDECAR_GOAL_H_
#define ISTHMUS_SIDECAR_GOAL_H_

#include <set>

#include "isthmus/board/manifest.h"

namespace isthmus::sidecar {

struct GoalInputs {
  board::VersionNumber head = board::kNoVersion;            // of the log, as far as it was read
  board::VersionNumber served = board::kNoVersion;          // none: no engine serves
  board::VersionNumber island_pin = board::kNoVersion;      // --pin
  board::VersionNumber wanted_exactly = board::kNoVersion;  // Gate::WantedExactly
};

// The first of these that exists, is not revoked and is not `unloadable`:
// 1. the island's pin, and nothing else if it has one;
// 2. a version between the served one and the head that a waiting request asks for exactly, so that
//    an island in a hurry to the newest does not pass it by;
// 3. the newest version, but none older than the served one unless that is revoked: a reading of
//    the log that is behind an earlier one, as some stores give, moves nobody back.
// kNoVersion if there is none.
board::VersionNumber ChooseGoal(const GoalInputs& inputs,
                                const std::set<board::VersionNumber>& revoked,
                                const std::set<board::VersionNumber>& unloadable);

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_GOAL_H_
