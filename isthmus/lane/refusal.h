// The answers to requests that are not let in (docs/request-lane.md, "Answers"). Pure.
#ifndef ISTHMUS_LANE_REFUSAL_H_
#define ISTHMUS_LANE_REFUSAL_H_

#include <string>

#include "isthmus/lane/decision.h"
#include "isthmus/lane/request.h"
#include "isthmus/net/http.h"

namespace isthmus::lane {

struct Answer {
  net::ResponseHead head;
  std::string body;  // JSON
};

// To a decision kNotReady (409), kRevoked (410) or kUnavailable (503).
Answer RefusalOf(const Decision& decision, const Constraint& asked);
// 503 for an admitted request that the engine or the island did not finish; nothing was sent to the
// client.
Answer EngineUnavailable(std::string_view message);
// 504: the time that the request gave is over, and nothing was sent to the client.
Answer DeadlineExceeded(std::string_view message);
// 403 for a route that clients do not reach.
Answer RouteBlocked(std::string_view method, std::string_view target);

}  // namespace isthmus::lane

#endif  // ISTHMUS_LANE_REFUSAL_H_
