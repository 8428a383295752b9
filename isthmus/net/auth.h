// Bearer tokens (RFC 6750): who may talk to a listener.
#ifndef ISTHMUS_NET_AUTH_H_
#define ISTHMUS_NET_AUTH_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/digest.h"
#include "isthmus/base/file.h"
#include "isthmus/net/http.h"

namespace isthmus::net {

// A set of tokens, any of which admits. Only their SHA-256 digests are kept, so no token can be
// read from memory or printed, and comparing takes the same time whatever was presented: all
// digests, all bytes. Immutable: several threads may ask. To change tokens, make a new one.
class BearerTokens {
 public:
  // kInvalid for no token at all, an empty one, or one with blanks or control characters.
  explicit BearerTokens(std::span<const std::string> tokens);
  // One token a line; empty lines and lines that begin with '#' are skipped. kInvalid, kNotFound.
  static BearerTokens FromFile(const fs::path& file);

  // Whether there is exactly one Authorization field and it is "Bearer TOKEN" with a known token.
  bool Admits(const Headers& request) const;

 private:
  bool Knows(std::string_view token) const;

  std::vector<Sha256Digest> digests_;
};

// What a request without a known token gets: 401 with "WWW-Authenticate: Bearer".
ResponseHead Unauthorized();

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_AUTH_H_
