// One request and its answer, as a handler sees them.
#ifndef ISTHMUS_NET_EXCHANGE_H_
#define ISTHMUS_NET_EXCHANGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "isthmus/net/byte_budget.h"
#include "isthmus/net/http.h"
#include "isthmus/net/task.h"

namespace isthmus::net {

class ServerSession;

// Lives while its handler runs. One operation at a time. What goes wrong with the client's
// connection is thrown as kUnavailable, what the client did wrong as HttpError; a handler passes
// both on.
//
// Disconnects. From the moment when the request's body has been read to its end (at once, if there
// is none) a client that closes or resets its connection, or only its sending half, cancels the
// handler: what it awaits throws operation_aborted, as does every await after that. A proxy's call
// to its upstream is closed in this way, which ends a generation. A handler that must not be cut
// off runs that part under its own asio::co_spawn.
class Exchange {
 public:
  explicit Exchange(ServerSession& session) : session_(session) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // The request, without "Expect: 100-continue", which is answered here. The handler may take it
  // apart.
  RequestHead& request();
  std::string peer() const;  // "address:port"

  // What Content-Length said; none for chunked bodies. 0 without a body.
  std::optional<uint64_t> request_bytes() const;
  // The next piece of the body, decoded, at most ServerLimits::piece_bytes; empty at its end. The
  // view lives until the next call to this exchange. Asks a client that waits for it to continue.
  Task<std::string_view> ReadPiece();
  // The rest of the body. HttpError 413 if it is larger. `share`, if given, grows by what is held;
  // HttpError 503 if it cannot.
  Task<std::string> ReadBody(uint64_t max_bytes, ByteBudget::Share* share = nullptr);

  // Begins the answer. With Content-Length in `head` exactly so many bytes must follow; without it
  // the body is chunked (HTTP/1.0: ended by the connection's end). Connection, Keep-Alive and
  // Transfer-Encoding are the server's business and removed. Answers to HEAD and with 204 or 304
  // have no body: pieces are dropped. The head leaves with the first piece, or by Flush.
  void Start(ResponseHead head);
  Task<void> Flush();
  // Sends a piece; ends when the kernel has taken it: back-pressure. An empty piece sends nothing.
  Task<void> Write(std::string_view piece);
  // Ends the answer, after a last piece. kInternal if Content-Length said otherwise.
  Task<void> Finish(std::string_view last = {});
  // A whole answer, with Content-Length.
  Task<void> Respond(ResponseHead head, std::string_view body = {});

  bool started() const;
  bool finished() const;
  // Whether the client went away.
  bool disconnected() const;

  // Cancels the handler as a disconnect does, but the connection stays. A handler that catches
  // operation_aborted, is not disconnected() and awaits asio::this_coro::reset_cancellation_state()
  // may still answer.
  void CancelHandler();

 private:
  ServerSession& session_;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_EXCHANGE_H_
