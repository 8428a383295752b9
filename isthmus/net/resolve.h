// From an origin to the addresses that it has.
#ifndef ISTHMUS_NET_RESOLVE_H_
#define ISTHMUS_NET_RESOLVE_H_

#include <boost/asio/ip/tcp.hpp>
#include <vector>

#include "isthmus/net/http.h"
#include "isthmus/net/task.h"

namespace isthmus::net {

// What the origin's host resolves to, with its port; a literal address needs no resolver.
// kUnavailable, naming the host. The origin must live until the end.
Task<std::vector<asio::ip::tcp::endpoint>> Resolve(const Origin& origin);

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_RESOLVE_H_
