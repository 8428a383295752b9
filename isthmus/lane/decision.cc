#include "isthmus/lane/decision.h"

namespace isthmus::lane {

std::string_view ReasonText(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "the served version satisfies the request";
    case Reason::kOtherRun:
      return "another run is served";
    case Reason::kSessionPin:
      return "the session is pinned to a version that the request excludes";
    case Reason::kPassed:
      return "the version asked for is no longer served";
    case Reason::kBehind:
      return "the version asked for is not served yet";
    case Reason::kLag:
      return "the served version is too many versions behind";
    case Reason::kTimeLag:
      return "the served version has been behind for too long";
    case Reason::kServedRevoked:
      return "the served version is revoked";
    case Reason::kIslandPinned:
      return "the island is pinned to a version that does not satisfy the request";
    case Reason::kSwitching:
      return "a switch of versions is under way";
    case Reason::kRevoked:
      return "the version asked for is revoked";
    case Reason::kBooting:
      return "no version is loaded yet";
    case Reason::kPoisoned:
      return "the engine holds unknown weights and must be reloaded";
    case Reason::kStopped:
      return "the island shuts down";
    case Reason::kLineFull:
      return "too many requests wait";
    case Reason::kInFlightFull:
      return "too many requests are in flight";
    case Reason::kSessionsFull:
      return "too many sessions are pinned";
    case Reason::kDraining:
      return "ended for a switch of versions";
  }
  return "";
}

}  // namespace isthmus::lane
