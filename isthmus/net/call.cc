#include <utility>

#include "isthmus/net/call_state.h"

namespace isthmus::net {
namespace {

// A server that sends nothing but 1xx would keep its caller busy for ever.
constexpr int kMaxInterimAnswers = 16;

}  // namespace

Call::Call(std::unique_ptr<State> state) : state_(std::move(state)) {}
Call::Call(Call&&) noexcept = default;
Call& Call::operator=(Call&&) noexcept = default;
Call::~Call() = default;

Task<void> Call::Write(std::string_view piece) { return state_->Write(piece, false); }
Task<std::string_view> Call::ReadPiece() { return state_->ReadPiece(); }
ResponseHead& Call::head() { return state_->head(); }
bool Call::done() const { return state_->done(); }
bool Call::ready() const { return state_->ready(); }

Task<void> Call::Finish(std::string_view last) {
  co_await state_->Write(last, true);
  co_await state_->ReadHead();
}

Task<std::string> Call::ReadBody(uint64_t max_bytes) {
  std::string body;
  while (!done()) {
    const std::string_view piece = co_await ReadPiece();
    if (body.size() + piece.size() > max_bytes) {
      Throw(ErrorCode::kCorrupt, "answer: more than {} bytes", max_bytes);
    }
    body.append(piece);
  }
  co_return body;
}

Call::State::State(std::shared_ptr<ConnectionPool> pool, Origin origin)
    : pool_(std::move(pool)), origin_(std::move(origin)) {}

Call::State::~State() {
  if (!connection_) return;
  const bool keep = done_ && !send_failed_ && left_bytes_ == 0 && parser_.keep_alive();
  if (keep) {
    pool_->Return(origin_, std::move(connection_));
  } else {
    connection_->Close();
  }
}

void Call::State::Prepare(RequestHead head, std::optional<uint64_t> body_bytes) {
  method_ = head.method;
  chunked_ = !body_bytes.has_value();
  left_bytes_ = body_bytes.value_or(0);
  for (std::string_view name : {"connection", "transfer-encoding", "content-length", "expect"}) {
    head.headers.Remove(name);
  }
  if (head.headers.Count("host") == 0) head.headers.Add("Host", origin_.Authority());
  const bool has_length =
      left_bytes_ > 0 || method_ == "POST" || method_ == "PUT" || method_ == "PATCH";
  if (chunked_) {
    head.headers.Add("Transfer-Encoding", "chunked");
  } else if (has_length) {
    head.headers.Add("Content-Length", fmt::format("{}", left_bytes_));
  }
  if (head.method.find_first_of(" \r\n") != head.method.npos ||
      head.target.find_first_of(" \r\n") != head.target.npos) {
    Throw(ErrorCode::kInvalid, "request: blanks or line ends in its method or target");
  }
  out_ = fmt::format("{} {} HTTP/1.1\r\n", head.method, head.target);
  head.headers.AppendTo(&out_);
  out_ += "\r\n";
}

Task<void> Call::State::Open(bool fresh) {
  auto lease = co_await pool_->Take(origin_, fresh);
  connection_ = std::move(lease.connection);
  reused_ = lease.reused;
  received_before_ = connection_->received_bytes();
  head_sent_ = send_failed_ = false;
}

Task<bool> Call::State::Exchange(std::string_view body, bool may_replay) {
  left_bytes_ = body.size();
  try {
    co_await Write(body, true);
    co_await ReadHead();
    co_return false;
  } catch (const Error& error) {
    const bool silent =
        connection_->received_bytes() == received_before_ && !connection_->expired();
    connection_->Close();
    if (!reused_ || !silent || !may_replay) throw;
  }
  ++pool_->counters().retries;
  co_return true;
}

Task<void> Call::State::Write(std::string_view piece, bool last) {
  if (!chunked_) {
    if (piece.size() > left_bytes_ || (last && piece.size() < left_bytes_)) {
      Throw(ErrorCode::kInternal, "request: not as long as its Content-Length");
    }
    left_bytes_ -= piece.size();
  }
  const std::string_view head = std::exchange(head_sent_, true) ? std::string_view() : out_;
  if (!chunked_ || piece.empty()) {
    const Parts parts = {head, piece, chunked_ && last ? "0\r\n\r\n" : ""};
    co_await SendParts(parts);
  } else {
    const std::string line = fmt::format("{:x}\r\n", piece.size());
    const Parts parts = {head, line, piece, last ? "\r\n0\r\n\r\n" : "\r\n"};
    co_await SendParts(parts);
  }
}

Task<void> Call::State::SendParts(Parts parts) {
  if (send_failed_) co_return;
  try {
    if (!connection_->TryWrite(&parts)) {
      co_await connection_->Write(parts, pool_->limits().stall);
    }
  } catch (const Error& error) {
    // The server may have answered already: that says more than a broken pipe.
    send_failed_ = true;
    if (connection_->expired()) Rethrow(error);
  }
}

Task<void> Call::State::ReadHead() {
  for (int interim = 0; interim <= kMaxInterimAnswers; ++interim) {
    const size_t size = co_await FindHead();
    TakeHead(size);
    if (head_.status >= 200) co_return;
  }
  Throw(ErrorCode::kCorrupt, "answer of {}: more than {} interim answers", origin_.Authority(),
        kMaxInterimAnswers);
}

Task<size_t> Call::State::FindHead() {
  HeadScanner scanner;
  connection_->Limit(pool_->limits().first_byte);
  for (;;) {
    const std::string_view unread = connection_->unread_text();
    size_t size = 0;
    try {
      size = scanner.Scan(unread);
    } catch (const HttpError& error) {
      Throw(ErrorCode::kCorrupt, "answer of {} is not HTTP: {}", origin_.Authority(), error.what());
    }
    if ((size > 0 ? size : unread.size()) > pool_->limits().head_bytes) {
      Throw(ErrorCode::kCorrupt, "answer of {}: a head of more than {} bytes", origin_.Authority(),
            pool_->limits().head_bytes);
    }
    if (size > 0) {
      connection_->Limit(Milliseconds(0));
      co_return size;
    }
    const bool more = co_await Fill();
    if (!more) {
      Throw(ErrorCode::kUnavailable, "answer of {}: the connection ended {}", origin_.Authority(),
            unread.empty() ? "before it" : "in its head");
    }
  }
}

void Call::State::TakeHead(size_t bytes) {
  try {
    parser_.ParseResponse(connection_->unread_text().substr(0, bytes), method_ == "HEAD", &head_);
  } catch (const HttpError& error) {
    Throw(ErrorCode::kCorrupt, "answer of {} is not HTTP: {}", origin_.Authority(), error.what());
  }
  connection_->Consume(bytes);
  if (head_.status == 101) {
    Throw(ErrorCode::kCorrupt, "answer of {}: switches protocols unasked", origin_.Authority());
  }
  head_read_ = head_.status >= 200;
  CheckDone();
}

void Call::State::CheckDone() { done_ = head_read_ && parser_.done(); }

bool Call::State::ready() const { return done_ || !connection_->unread().empty(); }

Task<bool> Call::State::Fill() {
  try {
    const bool more = co_await connection_->Fill();
    co_return more;
  } catch (const Error& error) {
    Rethrow(error);
  }
}

Task<std::string_view> Call::State::ReadPiece() {
  const std::string_view piece = co_await DecodePiece();
  connection_->Limit(Milliseconds(0));
  CheckDone();
  co_return piece;
}

Task<std::string_view> Call::State::DecodePiece() {
  while (!parser_.done()) {
    MessageParser::Decoded decoded;
    try {
      decoded = parser_.Decode(connection_->unread());
    } catch (const HttpError& error) {
      Throw(ErrorCode::kCorrupt, "answer of {}: {}", origin_.Authority(), error.what());
    }
    connection_->Consume(decoded.consumed);
    if (!decoded.body.empty()) co_return decoded.body;
    if (parser_.done()) break;
    connection_->Limit(pool_->limits().idle);
    const bool more = co_await Fill();
    if (more) continue;
    try {
      parser_.End();
    } catch (const Error& error) {
      Rethrow(error);
    }
  }
  co_return std::string_view();
}

void Call::State::Rethrow(const Error& error) const {
  const bool slow = connection_->expired();
  Throw(ErrorCode::kUnavailable, "answer of {}: {}", origin_.Authority(),
        slow ? "nothing came or went in time" : error.what());
}

}  // namespace isthmus::net
