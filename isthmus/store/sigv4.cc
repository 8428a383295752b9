// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
// https://cloud.google.com/storage/docs/authentication/signatures
#include "isthmus/store/sigv4.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>

#include "isthmus/base/digest.h"
#include "isthmus/base/error.h"

namespace isthmus::store {
namespace {

Sha256Digest Hmac(ByteSpan key, std::string_view text) {
  Sha256Digest digest;
  unsigned int size = 0;
  const unsigned char* const done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(digest.bytes.data()), &size);
  if (done == nullptr || size != digest.bytes.size()) {
    Throw(ErrorCode::kInternal, "sign a request: HMAC-SHA256 is not available");
  }
  return digest;
}

struct Canonical {
  std::string headers;  // "name:value\n" for each
  std::string names;    // "name;name"
};

Canonical Canonicalize(HttpHeaders headers) {
  std::ranges::sort(headers);
  Canonical canonical;
  for (const auto& [name, value] : headers) {
    canonical.headers += fmt::format("{}:{}\n", name, value);
    canonical.names += (canonical.names.empty() ? "" : ";") + name;
  }
  return canonical;
}

}  // namespace

std::string CanonicalQuery(std::vector<std::pair<std::string, std::string>> query) {
  for (auto& [name, value] : query) {
    name = PercentEncode(name);
    value = PercentEncode(value);
  }
  std::ranges::sort(query);
  std::string text;
  for (const auto& [name, value] : query) {
    text += fmt::format("{}{}={}", text.empty() ? "" : "&", name, value);
  }
  return text;
}

HttpHeaders Sign(const RequestToSign& request, const SigningDialect& dialect,
                 const Credentials& credentials, const std::string& region, WallTime now) {
  const auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(now);
  const std::string time = fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(seconds));
  const std::string day = time.substr(0, 8);
  const auto own = [&](std::string_view name) {
    return std::string(dialect.header_prefix) + std::string(name);
  };

  HttpHeaders headers = request.headers;
  headers.emplace_back(own("content-sha256"), request.payload_sha256);
  headers.emplace_back(own("date"), time);
  if (!credentials.session_token.empty()) {
    headers.emplace_back(own("security-token"), credentials.session_token);
  }
  HttpHeaders to_sign = headers;
  to_sign.emplace_back("host", request.host);
  const Canonical canonical = Canonicalize(std::move(to_sign));
  const std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path,
                                       CanonicalQuery(request.query), canonical.headers,
                                       canonical.names, request.payload_sha256);

  const std::string scope =
      fmt::format("{}/{}/{}/{}", day, region, dialect.service, dialect.terminator);
  const std::string string_to_sign =
      fmt::format("{}\n{}\n{}\n{}", dialect.algorithm, time, scope, Sha256(AsBytes(text)).Hex());
  const std::string secret = std::string(dialect.key_prefix) + credentials.secret;
  Sha256Digest key = Hmac(AsBytes(secret), day);
  for (const std::string_view step :
       {std::string_view(region), dialect.service, dialect.terminator}) {
    key = Hmac(key.span(), step);
  }
  headers.emplace_back("authorization",
                       fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}",
                                   dialect.algorithm, credentials.key_id, scope, canonical.names,
                                   Hmac(key.span(), string_to_sign).Hex()));
  return headers;
}

}  // namespace isthmus::store
