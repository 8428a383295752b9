// An HTTP/1.1 server: listen, one session a connection, a handler for each request.
#ifndef ISTHMUS_NET_SERVER_H_
#define ISTHMUS_NET_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "isthmus/net/deadline.h"
#include "isthmus/net/exchange.h"
#include "isthmus/net/task.h"
#include "isthmus/net/tls.h"

namespace isthmus::net {

// What a peer may cost. Zero milliseconds mean no limit. Times are kept to within an eighth of the
// shortest, and a second at most.
struct ServerLimits {
  size_t head_bytes = 64 * 1024;            // request line and fields; more is 431
  uint64_t body_bytes = uint64_t{1} << 30;  // decoded; more is 413
  size_t piece_bytes = 256 * 1024;  // most that one connection buffers, so also a piece's size
  size_t connections = 20'000;      // beyond, the kernel's queue waits for one to end
  Milliseconds head{10'000};        // from a request's first byte to its last field (408), TLS too
  Milliseconds idle{75'000};        // between requests; then the connection is closed
  Milliseconds body{30'000};        // between two pieces of a body (408)
  Milliseconds stall{60'000};       // a client that takes nothing of the answer
  Milliseconds linger{2'000};       // for the client to take a last answer before the close
};

struct ServerOptions {
  std::string host = "127.0.0.1";  // a numeric address, or a name that this machine has
  uint16_t port = 0;               // 0: the kernel chooses
  bool reuse_port = false;         // several servers, each with its own loop, share the port
  ServerLimits limits = {};
  std::shared_ptr<const ServerTls> tls = nullptr;  // none: plain HTTP
};

struct ServerCounters {
  uint64_t connections = 0;   // accepted so far
  uint64_t open = 0;          // of these, now
  uint64_t requests = 0;      // given to the handler so far
  uint64_t active = 0;        // of these, now
  uint64_t refused = 0;       // malformed, too large or too slow: never given to the handler
  uint64_t disconnected = 0;  // clients that went away while the handler was busy
};

// Answers one request. It runs until its answer is finished; a client that goes away cancels it
// (see Exchange). An Error that it throws before it began an answer becomes one, with
// StatusOf(code) and
// {"error":{"type":…,"message":…}}; after that the connection is cut, so the client sees that the
// answer is not whole. Ending without an answer is a 500.
using Handler = std::function<Task<void>(Exchange&)>;

class Server {
 public:
  // Listens and begins to accept. kUnavailable if the address is taken, kInvalid for a bad one.
  Server(Loop& loop, ServerOptions options, Handler handler);
  // Stops accepting and closes everything at once; handlers are cancelled.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  const ServerCounters& counters() const;

  // Stops accepting, closes idle connections, lets exchanges finish (their answers say "Connection:
  // close"), closes what is left at the deadline. Ends when no connection is open. May be
  // called once.
  Task<void> Drain(Milliseconds deadline);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_SERVER_H_
