// HTTP messages as values: heads with fields in the order in which they came. No sockets, no Asio.
#ifndef ISTHMUS_NET_HTTP_H_
#define ISTHMUS_NET_HTTP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/error.h"

namespace isthmus::net {

// Field lines in order, duplicates and raw values kept; names compare without regard to case. One
// string holds them all, so a list costs two allocations. Views into it live until it changes.
class Headers {
 public:
  struct Field {
    std::string_view name;
    std::string_view value;
  };

  // Appends. kInvalid unless the name is a token and the value free of CR, LF and NUL: a head that
  // is sent can never be split by what was put into it.
  void Add(std::string_view name, std::string_view value);
  // Removes all of this name and appends one.
  void Set(std::string_view name, std::string_view value);
  // Removes all of this name; how many there were.
  size_t Remove(std::string_view name);
  void Clear();

  // The value of the first of this name.
  std::optional<std::string_view> Find(std::string_view name) const;
  size_t Count(std::string_view name) const;
  // Whether a comma-separated list under this name (all its lines) holds the token, in any case.
  bool HasToken(std::string_view name, std::string_view token) const;

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  Field operator[](size_t index) const;

  // Appends "Name: value\r\n" for every field.
  void AppendTo(std::string* out) const;

 private:
  struct Entry {
    uint32_t at;  // the name's position in text_; the value follows it
    uint32_t name_bytes;
    uint32_t value_bytes;
  };
  void Reserve();

  std::string text_;
  std::vector<Entry> entries_;
};

struct RequestHead {
  std::string method = "GET";
  std::string target = "/";  // as on the request line, not decoded
  int minor_version = 1;     // HTTP/1.0 or HTTP/1.1, as received; what is sent is always 1.1
  Headers headers;
};

struct ResponseHead {
  int status = 200;
  std::string reason = {};  // empty: StatusReason(status) when it is sent
  Headers headers = {};
};

// "Not Found" for 404; "Unknown" for a code that this program does not know.
std::string_view StatusReason(int status);
// The status that says what an error's code says: the one table for HTTP.
int StatusOf(ErrorCode code);

// An error that is better told by a status of its own than by its code's.
class HttpError : public Error {
 public:
  HttpError(int status, const std::string& message);
  int status() const { return status_; }

 private:
  int status_;
};

// Removes what is meant for one connection only (RFC 9110 7.6.1): Connection and every field that
// it names, Keep-Alive, Proxy-Connection, Proxy-Authenticate, Proxy-Authorization, TE, Trailer,
// Transfer-Encoding and Upgrade. Content-Length stays.
void RemoveHopByHop(Headers* headers);

// ASCII only, as HTTP's names are.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);
// Without spaces and tabs at both ends.
std::string_view TrimBlanks(std::string_view text);

// Where a client connects to.
struct Origin {
  bool tls = false;
  std::string host;  // a name or an address; IPv6 without brackets
  uint16_t port = 80;

  // "http://host[:port]" or "https://host[:port]", and nothing after it but one "/"; kInvalid else.
  static Origin Parse(std::string_view url);
  // "host:port", an IPv6 address in brackets: for messages, and the Host field.
  std::string Authority() const;
  auto operator<=>(const Origin&) const = default;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_HTTP_H_
