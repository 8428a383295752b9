#include "isthmus/net/connection.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <cstring>

#include "isthmus/base/error.h"
#include "isthmus/net/http.h"

namespace isthmus::net {
namespace {

using boost::system::error_code;

// Holds the head of nearly every request; what an idle connection keeps.
constexpr size_t kFirstBufferBytes = 4096;
// A read is not begun for less: it would cost a system call for little.
constexpr size_t kLeastReadBytes = 1024;
// Writes that never wait would keep the thread from all other connections.
constexpr size_t kYieldBytes = 1 << 20;

// Errors go to *error instead of being thrown.
auto Await(error_code* error) { return asio::redirect_error(kAwait, *error); }

std::array<asio::const_buffer, 4> Buffers(const Parts& parts) {
  std::array<asio::const_buffer, 4> buffers;
  for (size_t i = 0; i < parts.size(); ++i) buffers[i] = {parts[i].data(), parts[i].size()};
  return buffers;
}

size_t TotalBytes(const Parts& parts) {
  size_t bytes = 0;
  for (std::string_view part : parts) bytes += part.size();
  return bytes;
}

void Skip(Parts* parts, size_t bytes) {
  for (std::string_view& part : *parts) {
    const size_t here = std::min(bytes, part.size());
    part.remove_prefix(here);
    bytes -= here;
  }
}

}  // namespace

Connection::Connection(Socket socket, std::shared_ptr<DeadlineList> deadlines,
                       size_t max_buffer_bytes)
    : socket_(std::move(socket)),
      deadline_(std::move(deadlines), [this] { OnExpired(); }),
      max_buffer_bytes_(max_buffer_bytes),
      wanted_(kFirstBufferBytes) {
  error_code ignored;
  // Events must leave when they are written; what belongs together is written together.
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

Task<void> Connection::Connect(asio::ip::tcp::endpoint endpoint) {
  error_code error;
  co_await socket_.async_connect(endpoint, Await(&error));
  if (error) ThrowBroken("connect", error);
}

Task<void> Connection::Handshake(std::shared_ptr<TlsContext> context, const std::string& host) {
  context_ = std::move(context);
  tls_ = std::make_unique<asio::ssl::stream<Socket&>>(socket_, *context_);
  if (!host.empty()) {
    error_code not_address;
    asio::ip::make_address(host, not_address);
    // Server names are for names only (RFC 6066).
    if (not_address) SSL_set_tlsext_host_name(tls_->native_handle(), host.c_str());
    tls_->set_verify_callback(asio::ssl::host_name_verification(host));
  }
  const auto side = host.empty() ? asio::ssl::stream_base::server : asio::ssl::stream_base::client;
  error_code error;
  co_await tls_->async_handshake(side, Await(&error));
  if (error) ThrowBroken("TLS handshake", error);
}

Task<bool> Connection::Fill() {
  const size_t before = end_ - begin_;
  if (!ended_) {
    StartRead();
    co_await arrived_.Wait();
  }
  if (end_ - begin_ > before) co_return true;
  if (expired_) throw HttpError(408, "receive: nothing came in time");
  if (read_error_ == asio::error::eof) co_return false;
  ThrowBroken("receive", read_error_);
}

void Connection::ReadAhead() {
  if (!reading_ && !ended_ && end_ - begin_ + kLeastReadBytes <= max_buffer_bytes_) StartRead();
}

void Connection::Shrink() {
  if (reading_ || begin_ != end_) return;
  begin_ = end_ = 0;
  wanted_ = kFirstBufferBytes;
  if (capacity_ > kFirstBufferBytes) {
    buffer_.reset();
    capacity_ = 0;
  }
}

void Connection::MakeRoom() {
  const size_t held = end_ - begin_;
  const size_t need = std::max(wanted_, held + kLeastReadBytes);
  if (capacity_ < need) {
    std::unique_ptr<char[]> larger(new char[need]);
    if (held > 0) std::memcpy(larger.get(), buffer_.get() + begin_, held);
    buffer_ = std::move(larger);
    capacity_ = need;
  } else if (held > 0 && begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, held);
  }
  begin_ = 0;
  end_ = held;
}

// The handler of a read. A loop that is destroyed destroys its handlers uncalled, and then the
// coroutine that waits for this one, which owns the connection, must go too, or they would keep
// each other.
struct Connection::PendingRead {
  std::shared_ptr<Connection> connection;

  explicit PendingRead(std::shared_ptr<Connection> self) : connection(std::move(self)) {}
  PendingRead(PendingRead&&) noexcept = default;
  PendingRead& operator=(PendingRead&&) = delete;
  ~PendingRead() {
    if (connection) connection->arrived_.Drop();
  }
  void operator()(error_code error, size_t bytes) {
    const auto self = std::move(connection);
    self->OnRead(error, bytes);
  }
};

void Connection::StartRead() {
  if (reading_) return;
  MakeRoom();
  reading_ = true;
  const auto room = asio::buffer(buffer_.get() + end_, capacity_ - end_);
  PendingRead done(shared_from_this());
  if (tls_) {
    tls_->async_read_some(room, std::move(done));
  } else {
    socket_.async_read_some(room, std::move(done));
  }
}

void Connection::OnRead(error_code error, size_t bytes) {
  reading_ = false;
  end_ += bytes;
  received_bytes_ += bytes;
  if (end_ == capacity_) wanted_ = std::min(std::max(wanted_, 2 * capacity_), max_buffer_bytes_);
  if (error) {
    ended_ = true;
    read_error_ = error;
  }
  if (arrived_.awaited()) {
    arrived_.Fire();
  } else if (const auto unasked = unasked_) {
    unasked();  // a copy: it may replace itself
  }
}

bool Connection::TryWrite(Parts* parts) {
  const size_t total = TotalBytes(*parts);
  if (tls_ || unyielded_bytes_ + total > kYieldBytes) return total == 0;
  error_code error;
  const size_t written = socket_.write_some(Buffers(*parts), error);
  unyielded_bytes_ += written;
  Skip(parts, written);
  if (error && error != asio::error::would_block) ThrowBroken("send", error);
  return written == total;
}

Task<size_t> Connection::WriteSome(const Parts& parts) {
  error_code error;
  size_t written = 0;
  if (tls_) {
    written = co_await tls_->async_write_some(Buffers(parts), Await(&error));
  } else {
    written = co_await socket_.async_write_some(Buffers(parts), Await(&error));
  }
  if (error) ThrowBroken("send", error);
  co_return written;
}

Task<void> Connection::Write(const Parts& parts, Milliseconds stall) {
  Parts rest = parts;
  while (!TryWrite(&rest)) {
    unyielded_bytes_ = 0;
    deadline_.Arm(stall);
    const size_t written = co_await WriteSome(rest);
    Skip(&rest, written);
    deadline_.Disarm();
  }
}

Task<void> Connection::Linger(Milliseconds limit) {
  Limit(limit);
  unasked_ = nullptr;
  error_code error;
  if (tls_) co_await tls_->async_shutdown(Await(&error));
  error.clear();
  socket_.shutdown(Socket::shutdown_send, error);
  // A read that is pending already takes what comes; a TLS stream reads no more after its end.
  if (reading_ && !tls_) co_await arrived_.Wait();
  std::array<char, kFirstBufferBytes> dropped;
  while (!error && !reading_ && !ended_) {
    co_await socket_.async_read_some(asio::buffer(dropped), Await(&error));
  }
  Close();
}

void Connection::Close() {
  deadline_.Disarm();
  error_code ignored;
  socket_.close(ignored);
}

void Connection::Limit(Milliseconds limit) { deadline_.Arm(limit); }

void Connection::OnExpired() {
  expired_ = true;
  if (!arrived_.awaited()) return Close();
  const auto self = shared_from_this();
  arrived_.Fire();
}

const std::string& Connection::peer() {
  if (peer_) return *peer_;
  error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  if (error) return peer_.emplace();
  const std::string address = endpoint.address().to_string();
  return peer_.emplace(fmt::format("{}{}{}:{}", endpoint.address().is_v6() ? "[" : "", address,
                                   endpoint.address().is_v6() ? "]" : "", endpoint.port()));
}

void Connection::ThrowBroken(std::string_view action, error_code error) const {
  if (error == asio::error::operation_aborted && !expired_ && open()) {
    throw boost::system::system_error(error);
  }
  Throw(ErrorCode::kUnavailable, "{}: {}", action,
        expired_ ? "no progress in time" : error.message());
}

}  // namespace isthmus::net
