// Signatures of requests to S3 (AWS Signature Version 4) and to Google's XML API, which signs alike
// under other names.
//
// libcurl signs as well (CURLOPT_AWS_SIGV4), but with the machine's clock: before version 8.4 it
// sends a date that it is given twice (curl issue 11738), which breaks the signature when clocks
// differ.
#ifndef ISTHMUS_STORE_SIGV4_H_
#define ISTHMUS_STORE_SIGV4_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/store/http_transport.h"

namespace isthmus::store {

struct Credentials {
  std::string key_id;
  std::string secret;
  std::string session_token;  // empty: long-lived keys
};

// The names in which the two families of endpoints differ.
struct SigningDialect {
  std::string_view algorithm;
  std::string_view key_prefix;
  std::string_view terminator;
  std::string_view service;
  std::string_view header_prefix;
};
inline constexpr SigningDialect kAmazonDialect = {"AWS4-HMAC-SHA256", "AWS4", "aws4_request", "s3",
                                                  "x-amz-"};
inline constexpr SigningDialect kGoogleDialect = {"GOOG4-HMAC-SHA256", "GOOG4", "goog4_request",
                                                  "storage", "x-goog-"};

struct RequestToSign {
  std::string method;
  std::string host;  // as the Host header says it, with a port that is not the scheme's
  std::string path;  // percent-encoded
  std::vector<std::pair<std::string, std::string>> query;  // not encoded
  HttpHeaders headers;         // all of them are signed; names in lower case
  std::string payload_sha256;  // hexadecimal, or UNSIGNED-PAYLOAD
};

// The query as it is signed and sent: encoded, sorted.
std::string CanonicalQuery(std::vector<std::pair<std::string, std::string>> query);

// The request's headers, with those that carry date, payload hash, session token and signature.
HttpHeaders Sign(const RequestToSign& request, const SigningDialect& dialect,
                 const Credentials& credentials, const std::string& region, WallTime now);

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_SIGV4_H_
