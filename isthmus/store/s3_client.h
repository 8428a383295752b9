// Requests to one bucket: signed, tried again, their errors understood.
#ifndef ISTHMUS_STORE_S3_CLIENT_H_
#define ISTHMUS_STORE_S3_CLIENT_H_

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/base/digest.h"
#include "isthmus/store/aws_credentials.h"
#include "isthmus/store/object_server.h"
#include "isthmus/store/s3_settings.h"

namespace isthmus::store {

struct S3Request {
  std::string method = "GET";
  std::string key;  // empty: the bucket itself
  std::vector<std::pair<std::string, std::string>> query;
  HttpHeaders headers;  // names in lower case
  ByteSpan body;
  std::optional<Sha256Digest> body_sha256;  // if somebody has it already
  HttpSink* sink = nullptr;
  uint64_t max_body_bytes = 1 << 20;
  uint64_t transfer_bytes = 0;
  std::vector<int> answers;  // statuses beside 2xx that are answers and no errors
  // The server works while it answers, with blanks to keep the connection: a 2xx can carry an error
  // document, and seconds without progress mean nothing.
  bool fails_late = false;
  std::optional<std::chrono::milliseconds> deadline;  // instead of the store's
};

struct S3Answer {
  HttpAnswer http;
  // Tries before this answer, each of which the server may have carried out.
  int earlier_tries = 0;
};

// What an error document says; all empty for other bodies.
struct S3Error {
  std::string code;
  std::string message;
  std::string region;
};
S3Error ParseS3Error(const std::string& body);

// Thread-safe. The steps of Send, with reasons, are at the head of s3_client.cc.
class S3Client final : public ObjectServer {
 public:
  S3Client(S3Settings settings, const StoreOptions& options, Environment environment);

  std::string Describe() const override { return description_; }
  HttpAnswer Read(const ReadRequest& request) override;

  // Tries until there is an answer: 2xx or one of given.answers. Errors: kNotFound for a bucket
  // that does not exist, kInvalid for what the server refuses and no repetition mends, kUnavailable
  // if the deadline passes before. They do not name the key.
  S3Answer Send(const S3Request& given);

  // A header of this endpoint's dialect: "x-amz-" or "x-goog-" and `name`.
  std::string Header(std::string_view name) const;
  // Makes a PUT one that creates and never replaces.
  std::pair<std::string, std::string> CreateOnly() const;

 private:
  struct Tries;
  // request.body_sha256 is there.
  HttpRequest Sign(const S3Request& request, const Credentials& keys) const;
  bool Understand(const HttpAnswer& answer, const S3Error& error, const Credentials& keys,
                  Tries* tries);
  bool CorrectClock(const HttpAnswer& answer, const S3Error& error, Tries* tries);
  bool MoveRegion(const HttpAnswer& answer, const S3Error& error, Tries* tries);
  S3Settings settings() const;

  const std::string description_;
  const std::chrono::milliseconds deadline_;
  const std::stop_token stop_;
  HttpTransport transport_;
  AwsCredentials credentials_;
  mutable std::mutex mutex_;
  S3Settings settings_;                      // the region can change
  std::atomic<int64_t> clock_offset_s_ = 0;  // the server's clock less this machine's
};

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_S3_CLIENT_H_
