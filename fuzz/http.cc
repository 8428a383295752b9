// HTTP messages: however the bytes come, they are the same message, or refused in the same way. u8
// kind (a request, a response, one without a body), u8 size of pieces, then the bytes.
#include "isthmus/net/http.h"

#include "fuzz/fuzz.h"
#include "isthmus/net/parser.h"

namespace isthmus::fuzz {
namespace {

using net::HeadScanner;
using net::MessageParser;

enum class Kind { kRequest, kResponse, kBodiless };

constexpr uint64_t kMaxBodyBytes = 10'000;

// What came of one connection's bytes.
struct Message {
  std::string head;
  std::string body;
  std::string rest;
  bool done = false;
  bool refused = false;

  bool operator==(const Message&) const = default;
};

class Connection {
 public:
  explicit Connection(Kind kind) : kind_(kind) {}

  void Feed(std::string_view piece) {
    buffer_.append(piece);
    if (message_.head.empty()) ReadHead();
    if (message_.head.empty()) return;
    for (size_t before = buffer_.size() + 1; before != buffer_.size() && !parser_.done();) {
      before = buffer_.size();
      Decode();
    }
  }
  void End() {
    if (message_.head.empty()) return;
    if (!parser_.done()) parser_.End();
    message_.done = parser_.done();
  }
  Message message(bool refused) {
    if (refused) return {.head = {}, .body = {}, .rest = {}, .done = false, .refused = true};
    message_.rest = buffer_;
    return message_;
  }

 private:
  void ReadHead() {
    const size_t size = scanner_.Scan(buffer_);
    if (size == 0) return;
    Require(size <= buffer_.size(), "a head is larger than what there is");
    const std::string head = buffer_.substr(0, size);
    buffer_.erase(0, size);
    if (kind_ == Kind::kRequest) {
      net::RequestHead request;
      parser_.ParseRequest(head, kMaxBodyBytes, &request);
      Keep(request.method + " " + request.target, request.headers);
    } else {
      net::ResponseHead response;
      parser_.ParseResponse(head, kind_ == Kind::kBodiless, &response);
      Keep(std::to_string(response.status) + " " + response.reason, response.headers);
    }
  }
  void Keep(const std::string& line, const net::Headers& headers) {
    message_.head = line + "\r\n";
    headers.AppendTo(&message_.head);
  }
  void Decode() {
    const auto decoded =
        parser_.Decode({reinterpret_cast<std::byte*>(buffer_.data()), buffer_.size()});
    Require(decoded.consumed <= buffer_.size(), "more is consumed than there is");
    Require(decoded.body.size() <= decoded.consumed, "a body is larger than its message");
    message_.body.append(decoded.body);
    buffer_.erase(0, decoded.consumed);
    if (kind_ == Kind::kRequest) {
      Require(message_.body.size() <= kMaxBodyBytes, "a body is larger than its bound");
    }
    message_.done = parser_.done();
  }

  Kind kind_;
  HeadScanner scanner_;
  MessageParser parser_;
  std::string buffer_;
  Message message_;
};

Message Parse(Kind kind, std::string_view bytes, size_t step) {
  Connection connection(kind);
  const bool taken = Succeeds(
      [&] {
        for (std::string_view rest = bytes; !rest.empty();) {
          const std::string_view piece = rest.substr(0, step);
          connection.Feed(piece);
          rest.remove_prefix(piece.size());
        }
        connection.End();
      },
      {ErrorCode::kInvalid, ErrorCode::kUnavailable});
  return connection.message(!taken);
}

void FuzzHttp(Input in) {
  const auto kind = static_cast<Kind>(in.U8() % 3);
  const size_t step = 1 + in.U8();
  const std::string_view bytes = AsText(in.rest());
  Require(Parse(kind, bytes, step) == Parse(kind, bytes, bytes.size()), "cuts change a message");
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzHttp({data, size});
  return 0;
}
