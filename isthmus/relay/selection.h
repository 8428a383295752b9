// Which part of an object an answer has: conditional requests and ranges (RFC 9110, 13 and 14).
// Pure.
#ifndef ISTHMUS_RELAY_SELECTION_H_
#define ISTHMUS_RELAY_SELECTION_H_

#include <cstdint>
#include <string_view>

#include "isthmus/net/http.h"

namespace isthmus::relay {

struct Selection {
  int status = 200;  // 200 whole, 206 a part, 304 the client has it, 412 not this, 416 no part
  uint64_t first = 0;
  uint64_t bytes = 0;  // 0 for 304, 412 and 416
};

// For a GET or HEAD of an object of `size` bytes whose strong tag is `etag`, quotes included. A
// Range field that is malformed, repeated, of another unit or asks for several ranges is ignored,
// as is one whose If-Range does not name `etag` exactly; HEAD has no ranges.
Selection Select(const net::RequestHead& request, uint64_t size, std::string_view etag);

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_SELECTION_H_
