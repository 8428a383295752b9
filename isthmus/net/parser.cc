#include "isthmus/net/parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cctype>
#include <cstring>
#include <limits>
#include <type_traits>
#include <variant>

namespace isthmus::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

// A chunk's size line with its extensions, or the trailers. Nothing that engines send comes near.
constexpr size_t kMaxFramingBytes = 8192;

// "0\r\n\r\n": the shortest end of a chunked body. Beast asserts that it is given so much, once it
// saw a last chunk's line, which a body may begin with.
constexpr size_t kLastChunkBytes = 5;

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

int StatusFor(error_code error) {
  if (error == http::error::body_limit) return 413;
  if (error == http::error::bad_version) return 505;
  return 400;
}

// Adds to Beast's parser what it tolerates, and keeps the head in our own type.
template <bool kRequest>
class Strict final : public http::basic_parser<kRequest> {
 public:
  using Head = std::conditional_t<kRequest, RequestHead, ResponseHead>;

  explicit Strict(Head* head) : head_(head) {
    // The scanner has bounded the head already.
    this->header_limit(std::numeric_limits<uint32_t>::max());
    this->body_limit(boost::none);
  }

  void ParseHead(std::string_view bytes) {
    error_code error;
    const size_t used = this->put(asio::const_buffer(bytes.data(), bytes.size()), error);
    if (error) Refuse(error);
    if (used != bytes.size()) throw HttpError(400, "HTTP head: ends before its last line");
    if (has_transfer_encoding_ && !http11_) {
      throw HttpError(400, "HTTP head: Transfer-Encoding in HTTP/1.0");
    }
    if constexpr (kRequest) {
      const size_t hosts = head_->headers.Count("host");
      if (hosts > 1 || (hosts == 0 && http11_)) {
        throw HttpError(400, fmt::format("HTTP head: {} Host fields, must be one", hosts));
      }
    }
    head_ = nullptr;
  }

  MessageParser::Decoded Decode(MutableByteSpan bytes) {
    begin_ = reinterpret_cast<char*>(bytes.data());
    piece_ = {};
    size_t used = 0;
    while (used < bytes.size() && !this->is_done()) {
      if (AtChunkLine() && bytes[used] == std::byte{'0'} && bytes.size() - used < kLastChunkBytes) {
        break;
      }
      error_code error;
      used += this->put(asio::const_buffer(bytes.data() + used, bytes.size() - used), error);
      if (error == http::error::need_more) break;
      if (error) Refuse(error);
    }
    if (!this->is_done() && bytes.size() - used > kMaxFramingBytes) {
      throw HttpError(400, "HTTP body: chunk line or trailers too long");
    }
    return {used, piece_};
  }

  void End() {
    error_code error;
    this->put_eof(error);
    if (error)
      Throw(ErrorCode::kUnavailable, "HTTP message: cut short by the end of the connection");
  }

 private:
  bool AtChunkLine() const { return has_transfer_encoding_ && chunk_left_bytes_ == 0; }

  [[noreturn]] static void Refuse(error_code error) {
    throw HttpError(StatusFor(error), fmt::format("HTTP message: {}", error.message()));
  }

  // Strings of our own would be found ambiguous with Beast's; these are its callbacks.
  void on_request_impl(http::verb, beast::string_view method, beast::string_view target,  // NOLINT
                       int version, error_code&) override {
    if constexpr (kRequest) {
      head_->method = View(method);
      head_->target = View(target);
      head_->minor_version = version % 10;
    }
    http11_ = version == 11;
  }

  void on_response_impl(int status, beast::string_view reason, int version,  // NOLINT
                        error_code&) override {
    if constexpr (!kRequest) {
      head_->status = status;
      head_->reason = View(reason);
    }
    http11_ = version == 11;
  }

  void on_field_impl(http::field field, beast::string_view name,
                     beast::string_view value,  // NOLINT
                     error_code& error) override {
    if (head_ == nullptr) return;  // a trailer
    if (field == http::field::transfer_encoding) {
      if (has_transfer_encoding_ || !EqualsIgnoreCase(View(value), "chunked")) {
        error = http::error::bad_transfer_encoding;
      }
      has_transfer_encoding_ = true;
    }
    if (field == http::field::content_length) {
      const bool digits = std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
      if (has_content_length_) error = http::error::multiple_content_length;
      if (!digits) error = http::error::bad_content_length;
      has_content_length_ = true;
    }
    head_->headers.Add(View(name), View(value));
  }

  void on_header_impl(error_code&) override {}                                       // NOLINT
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}  // NOLINT
  void on_chunk_header_impl(uint64_t bytes, beast::string_view, error_code&) override {
    chunk_left_bytes_ = bytes;
  }                                             // NOLINT
  void on_finish_impl(error_code&) override {}  // NOLINT

  size_t on_body_impl(beast::string_view body, error_code&) override {  // NOLINT
    Append(body);
    return body.size();
  }

  size_t on_chunk_body_impl(uint64_t, beast::string_view body, error_code&) override {  // NOLINT
    Append(body);
    chunk_left_bytes_ -= body.size();
    return body.size();
  }

  // Moves the bytes to the end of the piece: over framing that was consumed.
  void Append(beast::string_view body) {
    char* const from = begin_ + (body.data() - begin_);
    if (piece_.empty()) {
      piece_ = {from, body.size()};
      return;
    }
    char* const to = begin_ + (piece_.data() + piece_.size() - begin_);
    if (to != from) std::memmove(to, from, body.size());
    piece_ = {piece_.data(), piece_.size() + body.size()};
  }

  Head* head_;
  bool http11_ = false;
  bool has_transfer_encoding_ = false;
  bool has_content_length_ = false;
  uint64_t chunk_left_bytes_ = 0;
  char* begin_ = nullptr;
  std::string_view piece_;
};

}  // namespace

size_t HeadScanner::Scan(std::string_view bytes) {
  for (size_t at; (at = bytes.find('\n', scanned_)) != bytes.npos;) {
    if (at == 0 || bytes[at - 1] != '\r') throw HttpError(400, "HTTP head: a line ends in bare LF");
    const bool blank = at == line_begin_ + 1;
    const char first = bytes[line_begin_];
    if (line_begin_ > 0 && (first == ' ' || first == '\t')) {
      throw HttpError(400, "HTTP head: a folded line");
    }
    scanned_ = line_begin_ = at + 1;
    if (blank) return scanned_;
  }
  scanned_ = bytes.size();
  return 0;
}

struct MessageParser::Impl {
  std::variant<std::monostate, Strict<true>, Strict<false>> parser;

  // Calls `use` with the parser of the message that was begun last, if any was.
  template <typename Use>
  void With(const Use& use) {
    if (auto* request = std::get_if<1>(&parser)) use(*request);
    if (auto* response = std::get_if<2>(&parser)) use(*response);
  }
};

MessageParser::MessageParser() : impl_(std::make_unique<Impl>()) {}
MessageParser::~MessageParser() = default;
MessageParser::MessageParser(MessageParser&&) noexcept = default;
MessageParser& MessageParser::operator=(MessageParser&&) noexcept = default;

void MessageParser::ParseRequest(std::string_view head, uint64_t max_body_bytes, RequestHead* out) {
  out->headers.Clear();
  auto& parser = impl_->parser.emplace<1>(out);
  parser.body_limit(max_body_bytes);
  parser.ParseHead(head);
}

void MessageParser::ParseResponse(std::string_view head, bool bodiless, ResponseHead* out) {
  out->headers.Clear();
  auto& parser = impl_->parser.emplace<2>(out);
  parser.skip(bodiless);
  parser.ParseHead(head);
}

MessageParser::Decoded MessageParser::Decode(MutableByteSpan bytes) {
  Decoded decoded;
  impl_->With([&](auto& parser) { decoded = parser.Decode(bytes); });
  return decoded;
}

void MessageParser::End() {
  impl_->With([](auto& parser) { parser.End(); });
}

bool MessageParser::done() const {
  bool done = true;
  impl_->With([&](auto& parser) { done = parser.is_done(); });
  return done;
}

std::optional<uint64_t> MessageParser::content_length() const {
  std::optional<uint64_t> length;
  impl_->With([&](auto& parser) {
    if (const auto known = parser.content_length()) length = *known;
  });
  return length;
}

bool MessageParser::keep_alive() const {
  bool keep_alive = false;
  impl_->With([&](auto& parser) { keep_alive = parser.keep_alive(); });
  return keep_alive;
}

}  // namespace isthmus::net
