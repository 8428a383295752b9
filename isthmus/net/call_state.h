// The state behind Call. Used by client.cc and call.cc only.
#ifndef ISTHMUS_NET_CALL_STATE_H_
#define ISTHMUS_NET_CALL_STATE_H_

#include <memory>
#include <string>

#include "isthmus/net/client.h"
#include "isthmus/net/connection_pool.h"
#include "isthmus/net/parser.h"

namespace isthmus::net {

struct Call::State {
 public:
  State(std::shared_ptr<ConnectionPool> pool, Origin origin);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Makes the bytes of the request's head; no `body_bytes`: chunked.
  void Prepare(RequestHead head, std::optional<uint64_t> body_bytes);
  // Takes a connection from the pool, a new one if `fresh`.
  Task<void> Open(bool fresh);
  // Sends all and reads the answer's head. True if the connection was stale and the request may be
  // sent again on a fresh one.
  Task<bool> Exchange(std::string_view body, bool may_replay);

  Task<void> Write(std::string_view piece, bool last);
  Task<void> ReadHead();
  Task<std::string_view> ReadPiece();

  const std::string& method() const { return method_; }
  ResponseHead& head() { return head_; }
  bool done() const { return done_; }
  bool ready() const;

 private:
  Task<void> SendParts(Parts parts);
  Task<size_t> FindHead();
  Task<bool> Fill();
  Task<std::string_view> DecodePiece();
  void TakeHead(size_t bytes);
  void CheckDone();
  [[noreturn]] void Rethrow(const Error& error) const;

  std::shared_ptr<ConnectionPool> pool_;
  Origin origin_;
  std::shared_ptr<Connection> connection_;
  bool reused_ = false;
  uint64_t received_before_ = 0;

  std::string method_;
  std::string out_;  // the request's head
  bool head_sent_ = false;
  bool send_failed_ = false;
  bool chunked_ = false;
  uint64_t left_bytes_ = 0;  // of a request body with a length

  MessageParser parser_;
  ResponseHead head_;
  bool head_read_ = false;
  bool done_ = false;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_CALL_STATE_H_
