// What the gate says about a request.
#ifndef ISTHMUS_LANE_DECISION_H_
#define ISTHMUS_LANE_DECISION_H_

#include <cstdint>
#include <string_view>

#include "isthmus/board/manifest.h"

namespace isthmus::lane {

// Given out in order of arrival, from 1, never twice.
using RequestId = uint64_t;

enum class Outcome {
  kAdmitted,     // forward it now; it is in flight until Finish
  kWaiting,      // a later decision names it, unless it is withdrawn
  kNotReady,     // 409: no version here satisfies it in time; another island's may
  kRevoked,      // 410: the version that it asks for exactly is revoked
  kUnavailable,  // 503: this island admits nothing, or has no room
  kAborted,      // was admitted: end it on the engine and towards the client, then Finish
};

enum class Reason {
  kNone,           // admitted
  kOtherRun,       // another run is served
  kSessionPin,     // the session's pinned version contradicts the request's own constraint
  kPassed,         // the version asked for exactly is older than the one served or being loaded
  kBehind,         // the version asked for is not served yet
  kLag,            // the served version is too many versions behind
  kTimeLag,        // the served version has been behind for too long
  kServedRevoked,  // the served version is revoked and its successor not loaded yet
  kIslandPinned,   // the island is pinned to a version that does not satisfy the request
  kSwitching,      // satisfied but for the switch of versions that is under way
  kRevoked,        // the version asked for exactly is revoked
  kBooting,        // no version is loaded
  kPoisoned,       // a failed switch left unknown weights
  kStopped,        // the island shuts down
  kLineFull,       // as many requests wait as may
  kInFlightFull,   // as many requests are in flight as may
  kSessionsFull,   // as many sessions hold leases as may
  kDraining,       // aborted: the next version may not, or not yet, be loaded with it in flight
};

struct Decision {
  RequestId request = 0;
  Outcome outcome = Outcome::kAdmitted;
  Reason reason = Reason::kNone;  // of kWaiting: what it waits for
  // The served version when this was decided, read in the same step; kNoVersion if there is none.
  // Of kAdmitted: the version that the response starts with.
  board::VersionNumber version = board::kNoVersion;

  bool operator==(const Decision&) const = default;
};

// One clause for people, without a full stop.
std::string_view ReasonText(Reason reason);

}  // namespace isthmus::lane

#endif  // ISTHMUS_LANE_DECISION_H_
