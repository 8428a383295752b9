// Reads HTTP/1.1 messages from bytes, more strictly than most: what two programs could read in two
// ways is refused. No I/O. The implementation is the only file that sees Boost.Beast.
//
// Refused in heads of both kinds: bare LF or CR, a line that continues the one before (obs-fold),
// blanks before a colon, more than one Content-Length, one that is not digits only, Content-Length
// beside Transfer-Encoding, a Transfer-Encoding that is not exactly "chunked", or in HTTP/1.0. In
// requests also: no Host or several in HTTP/1.1, and versions other than 1.0 and 1.1 (505).
#ifndef ISTHMUS_NET_PARSER_H_
#define ISTHMUS_NET_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "isthmus/base/bytes.h"
#include "isthmus/net/http.h"

namespace isthmus::net {

// Finds where a head ends. Bad line ends are told as soon as they are there: a peer that ends its
// lines otherwise would never send the end that is looked for.
class HeadScanner {
 public:
  // `bytes` begins with the head and grows from call to call. The head's size once it is whole, 0
  // before. HttpError 400.
  size_t Scan(std::string_view bytes);

 private:
  size_t scanned_ = 0;  // all before is known to be in order
  size_t line_begin_ = 0;
};

// One message. Errors are HttpError with the status that a server should answer; a client says
// instead that the answer is no HTTP.
class MessageParser {
 public:
  MessageParser();
  ~MessageParser();
  MessageParser(MessageParser&&) noexcept;
  MessageParser& operator=(MessageParser&&) noexcept;

  // `head` is as HeadScanner found it. `max_body_bytes` bounds the decoded body: HttpError 413, at
  // once if Content-Length says more.
  void ParseRequest(std::string_view head, uint64_t max_body_bytes, RequestHead* out);
  // `bodiless`: the answer to HEAD, which has no body whatever it says.
  void ParseResponse(std::string_view head, bool bodiless, ResponseHead* out);

  // Decodes what it can of `bytes` in place: removes chunk framing, so that `body` is one piece
  // even if it came in many chunks. Bytes not consumed must come again with more behind them, or
  // belong to the next message. Trailers are checked and dropped.
  struct Decoded {
    size_t consumed = 0;
    std::string_view body;
  };
  Decoded Decode(MutableByteSpan bytes);

  // The connection ended: kUnavailable unless the message may end here.
  void End();

  // Whether the whole message was consumed.
  bool done() const;
  // What Content-Length said; none for chunked bodies and those that end with the connection.
  std::optional<uint64_t> content_length() const;
  // Whether the connection can carry another message after this one.
  bool keep_alive() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_PARSER_H_
