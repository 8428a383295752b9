#include "isthmus/net/session.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>

namespace isthmus::net {
namespace {

// What is read and dropped of a body that its handler did not want, to keep the connection.
constexpr uint64_t kMaxDroppedBytes = 64 * 1024;

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::string ErrorBody(std::string_view type, std::string_view message) {
  const boost::json::value body = {
      {"error",
       {{"type", boost::json::string_view(type.data(), type.size())},
        {"message", boost::json::string_view(message.data(), message.size())}}}};
  return boost::json::serialize(body);
}

}  // namespace

ServerSession::ServerSession(std::shared_ptr<Connection> connection, const ServerOptions& options,
                             ServerCounters* counters)
    : connection_(std::move(connection)), options_(options), counters_(counters) {}

Task<void> ServerSession::Run(const Handler& handler) {
  try {
    if (options_.tls) {
      connection_->Limit(options_.limits.head);
      const std::string no_name;
      co_await connection_->Handshake(options_.tls->current(), no_name);
    }
    while (co_await ServeOne(handler)) {
    }
  } catch (const Error&) {
    // The connection broke or its client is too slow: there is nobody to tell.
  } catch (const boost::system::system_error&) {
    // Cancelled: the client went away, or the server does.
  }
  connection_->Close();
}

void ServerSession::Drain() {
  draining_ = true;
  keep_alive_ = false;
  if (!busy_) connection_->Close();
}

void ServerSession::Abort() {
  connection_->Close();
  cancel_.emit(asio::cancellation_type::terminal);
}

Task<bool> ServerSession::ServeOne(const Handler& handler) {
  bool more = false;
  int status = 0;
  std::string message;
  try {
    if (!co_await ReadRequest()) co_return false;
  } catch (const HttpError& error) {
    if (!busy_) co_return false;  // idle for too long
    status = error.status();
    message = error.what();
  }
  if (status == 0) {
    co_await Handle(handler);
    more = co_await EndExchange();
  } else {
    ++counters_->refused;
    keep_alive_ = started_ = finished_ = false;
    co_await Refuse(status, "BadRequest", std::move(message));
  }
  if (!more && finished_) co_await connection_->Linger(options_.limits.linger);
  busy_ = false;
  co_return more && !draining_;
}

// False if the connection ended before a request was whole.
Task<bool> ServerSession::ReadRequest() {
  is_head_ = chunked_ = continue_due_ = false;
  minor_version_ = 1;
  const size_t size = co_await ReadHead();
  if (size == 0) co_return false;
  connection_->Limit(Milliseconds(0));
  BeginExchange(size);
  co_return true;
}

Task<size_t> ServerSession::ReadHead() {
  HeadScanner scanner;
  connection_->Shrink();
  connection_->Limit(std::exchange(first_, false) ? options_.limits.head : options_.limits.idle);
  for (;;) {
    // One empty line in front of a request is a habit of old clients (RFC 9112 2.2).
    if (!busy_ && connection_->unread_text().starts_with("\r\n")) connection_->Consume(2);
    const std::string_view unread = connection_->unread_text();
    if (!busy_ && !unread.empty() && unread != "\r") {
      busy_ = true;
      connection_->Limit(options_.limits.head);
    }
    const size_t size = busy_ ? scanner.Scan(unread) : 0;
    if ((size > 0 ? size : unread.size()) > options_.limits.head_bytes) {
      throw HttpError(431,
                      fmt::format("HTTP head: more than {} bytes", options_.limits.head_bytes));
    }
    if (size > 0) co_return size;
    const bool more = co_await connection_->Fill();
    if (!more) co_return 0;
  }
}

void ServerSession::BeginExchange(size_t head_bytes) {
  const std::string_view head = connection_->unread_text().substr(0, head_bytes);
  started_ = finished_ = keep_alive_ = false;
  parser_.ParseRequest(head, options_.limits.body_bytes, &request_);
  connection_->Consume(head_bytes);
  keep_alive_ = parser_.keep_alive() && !draining_;
  is_head_ = request_.method == "HEAD";
  minor_version_ = request_.minor_version;
  chunked_ = !parser_.done() && !parser_.content_length();
  if (const auto expect = request_.headers.Find("expect")) {
    if (!EqualsIgnoreCase(*expect, "100-continue")) {
      throw HttpError(417, "HTTP head: an expectation other than 100-continue");
    }
    continue_due_ = minor_version_ >= 1 && !parser_.done();
    request_.headers.Remove("expect");
  }
  if (parser_.done()) NoticeDisconnects();
}

Task<void> ServerSession::Handle(const Handler& handler) {
  ++counters_->requests;
  ++counters_->active;
  int status = 0;
  std::string type;
  std::string message;
  try {
    Exchange exchange(*this);
    co_await handler(exchange);
    status = started_ ? 0 : 500;
    message = "the request was not answered";
  } catch (const HttpError& error) {
    status = error.status();
    message = error.what();
  } catch (const Error& error) {
    status = StatusOf(error.code());
    type = ErrorCodeName(error.code());
    message = error.what();
  } catch (const boost::system::system_error& error) {
    status = disconnected_ || !connection_->open() ? 499 : 500;
    message = error.what();
  } catch (const std::exception& error) {
    status = 500;
    message = error.what();
  }
  --counters_->active;
  connection_->OnUnasked(nullptr);
  if (disconnected_ || started_ || status == 0) co_return;
  co_await Refuse(status, type.empty() ? StatusReason(status) : type, std::move(message));
}

Task<void> ServerSession::Refuse(int status, std::string_view type, std::string message) {
  ResponseHead head;
  head.status = status;
  head.headers.Add("Content-Type", "application/json");
  if (status == 503) head.headers.Add("Retry-After", "1");
  const std::string body = ErrorBody(type, message);
  head.headers.Add("Content-Length", fmt::format("{}", body.size()));
  Start(std::move(head));
  co_await Write(body, true);
}

// Whether the connection can take another request.
Task<bool> ServerSession::EndExchange() {
  if (!finished_ || disconnected_ || !connection_->open()) {
    connection_->Close();
    co_return false;
  }
  if (!keep_alive_ || framing_ == Framing::kUntilClose) co_return false;
  const bool dropped = co_await DropBody();
  co_return dropped;
}

// Reads over the rest of a request's body, if that is cheaper than a new connection.
Task<bool> ServerSession::DropBody() {
  if (parser_.done()) co_return true;
  if (continue_due_ || parser_.content_length().value_or(0) > kMaxDroppedBytes) co_return false;
  uint64_t dropped = 0;
  try {
    while (!parser_.done() && dropped <= kMaxDroppedBytes) {
      const std::string_view piece = co_await ReadPiece();
      dropped += piece.size();
    }
  } catch (const Error&) {
    co_return false;
  }
  connection_->OnUnasked(nullptr);
  co_return parser_.done();
}

void ServerSession::NoticeDisconnects() {
  connection_->OnUnasked([this] { OnUnasked(); });
  if (connection_->ended()) return OnUnasked();
  connection_->Shrink();
  connection_->ReadAhead();
}

void ServerSession::OnUnasked() {
  if (!connection_->ended()) return connection_->ReadAhead();
  connection_->OnUnasked(nullptr);
  disconnected_ = true;
  keep_alive_ = false;
  ++counters_->disconnected;
  cancel_.emit(asio::cancellation_type::terminal);
}

std::optional<uint64_t> ServerSession::request_bytes() const {
  if (chunked_) return std::nullopt;
  return parser_.content_length().value_or(0);
}

Task<std::string_view> ServerSession::ReadPiece() {
  if (std::exchange(continue_due_, false)) {
    // A client that has begun to send needs no leave.
    if (connection_->unread().empty() && !started_) {
      const Parts parts = {kContinue};
      co_await connection_->Write(parts, options_.limits.stall);
    }
  }
  // What fails leaves the connection in the middle of a body.
  const bool keep_alive = std::exchange(keep_alive_, false);
  const std::string_view piece = co_await DecodePiece();
  keep_alive_ = keep_alive && !draining_;
  if (piece.empty()) NoticeDisconnects();
  co_return piece;
}

Task<std::string_view> ServerSession::DecodePiece() {
  while (!parser_.done()) {
    const auto decoded = parser_.Decode(connection_->unread());
    connection_->Consume(decoded.consumed);
    if (!decoded.body.empty()) co_return decoded.body;
    if (parser_.done()) break;
    connection_->Limit(options_.limits.body);
    const bool more = co_await connection_->Fill();
    connection_->Limit(Milliseconds(0));
    if (!more) throw HttpError(400, "receive a request's body: cut short by the client");
  }
  co_return std::string_view();
}

}  // namespace isthmus::net
