// A server's connection: reads requests, writes answers, one after the other.
#ifndef ISTHMUS_NET_SESSION_H_
#define ISTHMUS_NET_SESSION_H_

#include <boost/asio/cancellation_signal.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "isthmus/net/connection.h"
#include "isthmus/net/parser.h"
#include "isthmus/net/server.h"

namespace isthmus::net {

// The state behind Exchange. Its coroutine (Run) owns it; the server knows it to close or drain it.
class ServerSession {
 public:
  ServerSession(std::shared_ptr<Connection> connection, const ServerOptions& options,
                ServerCounters* counters);

  // Serves requests until the connection ends. Never throws but for cancellation.
  Task<void> Run(const Handler& handler);
  // Ends an idle connection at once; a busy one after its exchange.
  void Drain();
  // Ends the connection at once and cancels the handler.
  void Abort();
  // Cancels the handler; the connection stays.
  void CancelHandler() { cancel_.emit(asio::cancellation_type::terminal); }

  asio::cancellation_slot slot() { return cancel_.slot(); }

  RequestHead& request() { return request_; }
  const std::string& peer() const { return connection_->peer(); }
  std::optional<uint64_t> request_bytes() const;
  Task<std::string_view> ReadPiece();

  void Start(ResponseHead head);
  Task<void> Write(std::string_view piece, bool last);
  Task<void> Flush();
  bool started() const { return started_; }
  bool finished() const { return finished_; }
  bool disconnected() const { return disconnected_; }

 private:
  enum class Framing { kNone, kLength, kChunked, kUntilClose };

  Task<bool> ServeOne(const Handler& handler);
  Task<bool> ReadRequest();
  Task<size_t> ReadHead();
  void BeginExchange(size_t head_bytes);
  Task<void> Handle(const Handler& handler);
  Task<void> Refuse(int status, std::string_view type, std::string message);
  Task<bool> EndExchange();
  Task<bool> DropBody();
  Task<std::string_view> DecodePiece();
  void NoticeDisconnects();
  void OnUnasked();
  Framing FramingOf(const ResponseHead& head);
  void AppendHead(const ResponseHead& head);
  Parts FramedParts(std::string_view piece, bool last);

  std::shared_ptr<Connection> connection_;
  const ServerOptions& options_;
  ServerCounters* counters_;
  asio::cancellation_signal cancel_;
  bool draining_ = false, busy_ = false, first_ = true;

  MessageParser parser_;
  RequestHead request_;
  bool continue_due_ = false;  // the client waits for 100
  bool disconnected_ = false;
  // Of the request, which the handler may have taken apart.
  bool is_head_ = false, chunked_ = false;
  int minor_version_ = 1;

  bool started_ = false, finished_ = false, keep_alive_ = false;
  Framing framing_ = Framing::kNone;
  uint64_t left_bytes_ = 0;  // of a body with a length
  std::string out_;          // a head that was not sent yet
  char chunk_line_[24];      // the size line in front of a chunk
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_SESSION_H_
