// What an answer's head says of its body. Pure.
#ifndef ISTHMUS_LANE_ANSWER_HEAD_H_
#define ISTHMUS_LANE_ANSWER_HEAD_H_

#include "isthmus/net/http.h"

namespace isthmus::lane {

// Server-sent events.
bool IsEventStream(const net::ResponseHead& head);
bool IsJson(const net::ResponseHead& head);

}  // namespace isthmus::lane

#endif  // ISTHMUS_LANE_ANSWER_HEAD_H_
