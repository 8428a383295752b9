#include "isthmus/net/exchange.h"

#include <charconv>

#include "isthmus/net/session.h"

namespace isthmus::net {

RequestHead& Exchange::request() { return session_.request(); }
std::string Exchange::peer() const { return session_.peer(); }
std::optional<uint64_t> Exchange::request_bytes() const { return session_.request_bytes(); }
Task<std::string_view> Exchange::ReadPiece() { return session_.ReadPiece(); }
void Exchange::Start(ResponseHead head) { session_.Start(std::move(head)); }
Task<void> Exchange::Flush() { return session_.Flush(); }
Task<void> Exchange::Write(std::string_view piece) { return session_.Write(piece, false); }
Task<void> Exchange::Finish(std::string_view last) { return session_.Write(last, true); }
bool Exchange::started() const { return session_.started(); }
bool Exchange::finished() const { return session_.finished(); }
bool Exchange::disconnected() const { return session_.disconnected(); }
void Exchange::CancelHandler() { session_.CancelHandler(); }

Task<std::string> Exchange::ReadBody(uint64_t max_bytes, ByteBudget::Share* share) {
  std::string body;
  if (request_bytes().value_or(0) > max_bytes) {
    throw HttpError(413, fmt::format("request body: more than {} bytes", max_bytes));
  }
  for (;;) {
    const std::string_view piece = co_await ReadPiece();
    if (piece.empty()) co_return body;
    if (body.size() + piece.size() > max_bytes) {
      throw HttpError(413, fmt::format("request body: more than {} bytes", max_bytes));
    }
    if (share != nullptr && !share->Grow(piece.size())) {
      throw HttpError(503, "request body: too much is held for other requests, ask again later");
    }
    body.append(piece);
  }
}

Task<void> Exchange::Respond(ResponseHead head, std::string_view body) {
  head.headers.Set("Content-Length", fmt::format("{}", body.size()));
  session_.Start(std::move(head));
  return session_.Write(body, true);
}

namespace {

bool HasNoBody(int status) { return status == 204 || status == 304; }

uint64_t ParseLength(std::string_view text) {
  uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc{} || end != text.data() + text.size()) {
    Throw(ErrorCode::kInternal, "answer: Content-Length \"{}\" is no number", text);
  }
  return length;
}

}  // namespace

void ServerSession::Start(ResponseHead head) {
  if (started_) Throw(ErrorCode::kInternal, "answer: begun twice");
  if (head.status < 200 || head.status > 999) {
    Throw(ErrorCode::kInternal, "answer: status {}, allowed 200 to 999", head.status);
  }
  for (std::string_view name : {"connection", "keep-alive", "transfer-encoding"}) {
    head.headers.Remove(name);
  }
  if (head.status == 204) head.headers.Remove("content-length");
  framing_ = FramingOf(head);
  if (framing_ == Framing::kUntilClose || continue_due_) keep_alive_ = false;
  started_ = true;
  AppendHead(head);
}

ServerSession::Framing ServerSession::FramingOf(const ResponseHead& head) {
  if (HasNoBody(head.status) || is_head_) return Framing::kNone;
  if (const auto length = head.headers.Find("content-length")) {
    left_bytes_ = ParseLength(*length);
    return Framing::kLength;
  }
  return minor_version_ >= 1 ? Framing::kChunked : Framing::kUntilClose;
}

void ServerSession::AppendHead(const ResponseHead& head) {
  out_.clear();
  std::string_view reason = head.reason;
  if (reason.empty()) reason = StatusReason(head.status);
  fmt::format_to(std::back_inserter(out_), "HTTP/1.1 {} {}\r\n", head.status, reason);
  head.headers.AppendTo(&out_);
  if (framing_ == Framing::kChunked) out_ += "Transfer-Encoding: chunked\r\n";
  if (!keep_alive_) {
    out_ += "Connection: close\r\n";
  } else if (minor_version_ == 0) {
    out_ += "Connection: keep-alive\r\n";
  }
  out_ += "\r\n";
}

// The head if it was not sent, and the piece as the framing wants it.
Parts ServerSession::FramedParts(std::string_view piece, bool last) {
  if (framing_ == Framing::kNone) return {out_};
  if (framing_ != Framing::kChunked) return {out_, piece};
  if (piece.empty()) return {out_, {}, {}, last ? "0\r\n\r\n" : ""};
  char* const end = fmt::format_to(chunk_line_, "{:x}\r\n", piece.size());
  return {out_, {chunk_line_, end}, piece, last ? "\r\n0\r\n\r\n" : "\r\n"};
}

Task<void> ServerSession::Write(std::string_view piece, bool last) {
  if (!started_ || finished_) Throw(ErrorCode::kInternal, "answer: a piece outside of it");
  if (framing_ == Framing::kLength) {
    if (piece.size() > left_bytes_ || (last && piece.size() < left_bytes_)) {
      Throw(ErrorCode::kInternal, "answer: not as long as its Content-Length");
    }
    left_bytes_ -= piece.size();
  }
  if (piece.empty() && !last) co_return;
  Parts parts = FramedParts(piece, last);
  if (!connection_->TryWrite(&parts)) co_await connection_->Write(parts, options_.limits.stall);
  out_.clear();
  finished_ = last;
  if (last) connection_->OnUnasked(nullptr);
}

Task<void> ServerSession::Flush() {
  if (out_.empty()) co_return;
  const Parts parts = {out_};
  co_await connection_->Write(parts, options_.limits.stall);
  out_.clear();
}

}  // namespace isthmus::net
