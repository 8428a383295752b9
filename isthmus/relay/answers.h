// The heads of a relay's answers. Pure.
#ifndef ISTHMUS_RELAY_ANSWERS_H_
#define ISTHMUS_RELAY_ANSWERS_H_

#include <string>
#include <string_view>

#include "isthmus/net/http.h"
#include "isthmus/relay/object_kind.h"
#include "isthmus/relay/selection.h"

namespace isthmus::relay {

// What every relay of the board gives this immutable object as its strong tag, quotes included.
std::string TagOf(std::string_view board, std::string_view key, uint64_t bytes);
// The same for content that may change.
std::string TagOfContent(std::string_view content);

// All fields for the selected part of an object of `size` bytes, Content-Length included.
net::ResponseHead HeadFor(const Selection& selection, std::string_view key, ObjectKind kind,
                          uint64_t size, std::string_view etag);

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_ANSWERS_H_
