// Puts versions into the events of a streamed answer. Pure.
#ifndef ISTHMUS_LANE_EVENT_STAMP_H_
#define ISTHMUS_LANE_EVENT_STAMP_H_

#include <string>
#include <string_view>

#include "isthmus/lane/answer_stamp.h"
#include "isthmus/net/sse.h"

namespace isthmus::lane {

// Appends to `out` the event with `members` (StampMembers) in its data, in the place that `shape`
// says. All else stays byte for byte: other lines, line ends, white space.
//
// The event as it is, if its data is on several lines, is none, or neither begins with '{' and ends
// with '}' nor, for kMetaInfo, with '[' and ']': comments and "[DONE]" too. Data that looks like
// JSON is taken for it.
void AppendStamped(const net::SseEvent& event, AnswerShape shape, const std::string& members,
                   std::string* out);

}  // namespace isthmus::lane

#endif  // ISTHMUS_LANE_EVENT_STAMP_H_
