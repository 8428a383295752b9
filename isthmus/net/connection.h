// One TCP or TLS connection: a buffer that is read ahead into, and writes with back-pressure.
// Server and client are built on it; nothing outside this layer uses it.
#ifndef ISTHMUS_NET_CONNECTION_H_
#define ISTHMUS_NET_CONNECTION_H_

#include <array>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "isthmus/base/bytes.h"
#include "isthmus/net/deadline.h"
#include "isthmus/net/tls.h"
#include "isthmus/net/wakeup.h"

namespace isthmus::net {

using Socket = asio::basic_stream_socket<asio::ip::tcp, Executor>;

// What is written in one call, in order; empty parts are skipped.
using Parts = std::array<std::string_view, 4>;

// A read is pending whenever the owner wants to know that the peer went away: it is the same read
// that takes the peer's next bytes, so noticing costs no system call of its own.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `max_buffer_bytes`: what Fill may let the buffer grow to. It begins small, doubles when a read
  // filled it, and shrinks again when the connection is idle.
  Connection(Socket socket, std::shared_ptr<DeadlineList> deadlines, size_t max_buffer_bytes);

  // A client's first step. kUnavailable.
  Task<void> Connect(asio::ip::tcp::endpoint endpoint);
  // TLS. A client names the host, which the certificate must be for; a server passes none. Fails
  // with kUnavailable.
  Task<void> Handshake(std::shared_ptr<TlsContext> context, const std::string& host);

  // What has arrived and was not consumed. Views into it, and into what was consumed last, live
  // until the next Fill or ReadAhead.
  MutableByteSpan unread() {
    return {reinterpret_cast<std::byte*>(buffer_.get()) + begin_, end_ - begin_};
  }
  std::string_view unread_text() const { return {buffer_.get() + begin_, end_ - begin_}; }
  void Consume(size_t bytes) { begin_ += bytes; }

  // Waits for more unread bytes; false at the end of the stream. Throws kUnavailable if the
  // connection broke, kNotReady (HttpError 408) if the deadline expired.
  Task<bool> Fill();
  // Starts a read if none is pending, there is room and the stream has not ended.
  void ReadAhead();
  // Called on the loop when a read ends while nobody waits in Fill: bytes, or the stream's end.
  void OnUnasked(std::function<void()> unasked) { unasked_ = std::move(unasked); }
  bool ended() const { return ended_; }
  // Gives back what the buffer grew to, if it holds nothing.
  void Shrink();

  // Writes all parts, returns when the kernel has them. `stall` bounds the time without progress.
  // Throws kUnavailable.
  Task<void> Write(const Parts& parts, Milliseconds stall);
  // The part of Write that needs no waiting; true if that was all. What is left stays in `parts`.
  bool TryWrite(Parts* parts);

  // Sends the end of the stream and drops what the peer still sends, until its end or the deadline:
  // so that a last answer is not lost in a reset. Then closes.
  Task<void> Linger(Milliseconds limit);
  // At once; pending operations end with an error.
  void Close();
  bool open() const { return socket_.is_open(); }

  // Bounds whatever is awaited, from now on; zero ends it. When it expires a waiting Fill throws,
  // any other operation is ended by closing.
  void Limit(Milliseconds limit);
  bool expired() const { return expired_; }

  // "address:port", as it was when it was first asked for; empty if the peer was gone then.
  const std::string& peer();
  uint64_t received_bytes() const { return received_bytes_; }

 private:
  struct PendingRead;

  void MakeRoom();
  void StartRead();
  void OnRead(boost::system::error_code error, size_t bytes);
  void OnExpired();
  Task<size_t> WriteSome(const Parts& parts);
  [[noreturn]] void ThrowBroken(std::string_view action, boost::system::error_code error) const;

  Socket socket_;
  std::unique_ptr<asio::ssl::stream<Socket&>> tls_;
  std::shared_ptr<TlsContext> context_;
  Deadline deadline_;
  bool expired_ = false;

  size_t max_buffer_bytes_;
  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0, begin_ = 0, end_ = 0;
  size_t wanted_ = 0;
  bool reading_ = false, ended_ = false;
  boost::system::error_code read_error_;
  Wakeup arrived_;
  std::function<void()> unasked_;

  std::optional<std::string> peer_;
  size_t unyielded_bytes_ = 0;
  uint64_t received_bytes_ = 0;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_CONNECTION_H_
