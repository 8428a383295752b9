// "http(s)://host[:port][/path]", the form of all addresses that this layer takes.
#ifndef ISTHMUS_STORE_HTTP_URL_H_
#define ISTHMUS_STORE_HTTP_URL_H_

#include <string>
#include <string_view>

namespace isthmus::store {

struct HttpUrl {
  std::string scheme;  // "http" or "https"
  std::string host;    // in lower case; IPv6 in brackets
  std::string port;    // empty: the scheme's
  std::string path;    // as written, without slashes at its end; empty or beginning with '/'

  // kInvalid for anything else: a user, a query, a fragment, blanks and control characters too.
  static HttpUrl Parse(std::string_view text);

  // host[:port], as the Host header has it.
  std::string Authority() const { return port.empty() ? host : host + ":" + port; }
  std::string Origin() const { return scheme + "://" + Authority(); }
};

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_HTTP_URL_H_
