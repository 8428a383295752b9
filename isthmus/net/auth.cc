#include "isthmus/net/auth.h"

#include <openssl/crypto.h>

#include <algorithm>

namespace isthmus::net {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;  // some 10,000 tokens; a wrong path is told early
constexpr std::string_view kScheme = "bearer";

bool IsToken(std::string_view token) {
  return !token.empty() && std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace

BearerTokens::BearerTokens(std::span<const std::string> tokens) {
  if (tokens.empty()) Throw(ErrorCode::kInvalid, "bearer tokens: found none, at least one needed");
  for (size_t i = 0; i < tokens.size(); ++i) {
    // The message has the place, never the token: messages are logged.
    if (!IsToken(tokens[i])) {
      Throw(ErrorCode::kInvalid, "bearer token {}: must be visible ASCII without blanks", i + 1);
    }
    digests_.push_back(Sha256(AsBytes(tokens[i])));
  }
}

BearerTokens BearerTokens::FromFile(const fs::path& file) {
  const std::string text = ReadFile(file, kMaxFileBytes);
  std::vector<std::string> tokens;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = TrimBlanks(line);
    if (!line.empty() && line.front() != '#') tokens.emplace_back(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  try {
    return BearerTokens(tokens);
  } catch (const Error& error) {
    throw error.Annotated(file.string());
  }
}

bool BearerTokens::Admits(const Headers& request) const {
  const auto value = request.Find("authorization");
  if (!value || request.Count("authorization") != 1) return false;
  const size_t blank = std::min(value->find(' '), value->size());
  return EqualsIgnoreCase(value->substr(0, blank), kScheme) &&
         Knows(TrimBlanks(value->substr(blank)));
}

bool BearerTokens::Knows(std::string_view token) const {
  const Sha256Digest digest = Sha256(AsBytes(token));
  bool known = false;
  for (const Sha256Digest& one : digests_) {
    known |= CRYPTO_memcmp(one.bytes.data(), digest.bytes.data(), digest.bytes.size()) == 0;
  }
  return known;
}

ResponseHead Unauthorized() {
  ResponseHead head{.status = 401};
  head.headers.Add("WWW-Authenticate", "Bearer");
  return head;
}

}  // namespace isthmus::net
