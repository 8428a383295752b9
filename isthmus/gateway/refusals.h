// The gateway's own answers to requests that no island has answered: docs/gateway.md, "Answers of
// the gateway's own". Pure.
#ifndef ISTHMUS_GATEWAY_REFUSALS_H_
#define ISTHMUS_GATEWAY_REFUSALS_H_

#include <string_view>

#include "isthmus/gateway/snapshot.h"
#include "isthmus/lane/refusal.h"

namespace isthmus::gateway {

// 409, with the newest version that the fleet serves.
lane::Answer NotReady(const lane::Constraint& asked, VersionNumber newest);
// 429, with Retry-After.
lane::Answer Overloaded(std::string_view message);

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_REFUSALS_H_
