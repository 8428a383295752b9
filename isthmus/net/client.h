// An HTTP/1.1 client: keep-alive connections per origin, calls that stream both ways.
#ifndef ISTHMUS_NET_CLIENT_H_
#define ISTHMUS_NET_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "isthmus/net/deadline.h"
#include "isthmus/net/http.h"
#include "isthmus/net/task.h"
#include "isthmus/net/tls.h"

namespace isthmus::net {

// Zero milliseconds mean no limit. Times are kept to within an eighth of the shortest, and a second
// at most.
struct ClientLimits {
  Milliseconds connect{5'000};  // for one address, TLS included
  Milliseconds first_byte{
      600'000};                   // from the sent request to the answer's head: a whole generation
  Milliseconds idle{120'000};     // between two pieces of the answer
  Milliseconds stall{60'000};     // a server that takes nothing of the request
  Milliseconds pooled{60'000};    // that an unused connection is kept
  size_t head_bytes = 64 * 1024;  // an answer's status line and fields
  size_t piece_bytes = 256 * 1024;  // most that one call buffers, so also a piece's size
  size_t pooled_per_origin = 1024;  // unused connections kept
};

struct ClientCounters {
  uint64_t connects = 0;  // connections made
  uint64_t reuses = 0;    // requests sent on a connection that had served another
  uint64_t unused = 0;    // connections kept, now
  uint64_t retries = 0;   // requests sent again because such a connection had gone stale
};

// One request and its answer. Movable; a call that is destroyed before done() closes its
// connection, which is what aborts a generation; after it the connection serves others. All
// failures are kUnavailable (refused, reset, too slow, cut short) or kCorrupt (the answer is not
// HTTP/1.1), and name the origin. One operation at a time; a cancelled one leaves a call that can
// only be destroyed.
class Call {
 public:
  Call(Call&&) noexcept;
  Call& operator=(Call&&) noexcept;
  ~Call();

  // The next piece of a streamed request body (Client::Begin); ends when the kernel has taken it. A
  // server that answers before it has all may stop reading: that is no error here, Finish tells.
  Task<void> Write(std::string_view piece);
  // Ends the request, with a last piece, and waits for the answer's head. 1xx answers are skipped.
  Task<void> Finish(std::string_view last = {});

  // The answer, from when it is there.
  ResponseHead& head();
  // Its next piece, decoded, at most ClientLimits::piece_bytes; empty at its end. The view lives
  // until the next call.
  Task<std::string_view> ReadPiece();
  // The rest of it; kCorrupt if it is larger.
  Task<std::string> ReadBody(uint64_t max_bytes);
  // Whether all was read: together with a piece it says that this was the last.
  bool done() const;
  // Whether ReadPiece would not have to wait: if not, what was passed on may be flushed first.
  bool ready() const;

 private:
  friend class Client;
  struct State;
  explicit Call(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Whether a request may be sent again on a new connection when a kept one turns out closed before
// any byte of an answer. Then the server has hardly seen it, but nobody can know.
enum class Replay {
  kIfIdempotent,  // GET, HEAD, OPTIONS, PUT, DELETE, TRACE
  kAlways,        // the caller says that doing it twice does no harm
  kNever,
};

class Client {
 public:
  // `tls` serves https origins; without it the system's roots are trusted.
  Client(Loop& loop, ClientLimits limits, std::shared_ptr<const ClientTls> tls = nullptr);
  // Unused connections are closed; calls may outlive their client.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Sends a request with a whole body and waits for the answer's head. Framing fields are set here;
  // Host too, if `head` has none. `body` must live until the answer is there.
  Task<Call> Send(const Origin& origin, RequestHead head, std::string_view body = {},
                  Replay replay = Replay::kIfIdempotent);
  // Begins a request whose body is streamed: `body_bytes` long, else chunked. Never replayed.
  Task<Call> Begin(const Origin& origin, RequestHead head, std::optional<uint64_t> body_bytes);

  const ClientCounters& counters() const;

 private:
  std::shared_ptr<class ConnectionPool> pool_;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_CLIENT_H_
