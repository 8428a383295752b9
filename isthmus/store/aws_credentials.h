// Where the keys for S3 come from, as AWS's tools look for them.
// https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
#ifndef ISTHMUS_STORE_AWS_CREDENTIALS_H_
#define ISTHMUS_STORE_AWS_CREDENTIALS_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "isthmus/base/clock.h"
#include "isthmus/store/environment.h"
#include "isthmus/store/sigv4.h"

namespace isthmus::store {

struct TimedCredentials {
  Credentials keys;
  std::optional<WallTime> expires;  // nullopt: nobody said so
};

// The answer of a credentials endpoint (of containers, of instances): a JSON object with
// AccessKeyId, SecretAccessKey, Token and Expiration. kCorrupt for anything else; the message holds
// nothing of it.
TimedCredentials ParseCredentials(std::string_view json_text);

// The first of these that is there:
//  1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN;
//  2. the keys of the profile (aws_config.h);
//  3. the container's endpoint: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, or …_FULL_URI: over https,
//     or over http at a loopback address or at that of a container agent; what it is shown as
//     Authorization is in AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE or …_TOKEN;
//  4. the instance's metadata service, version 2 (AWS_EC2_METADATA_SERVICE_ENDPOINT), unless
//     AWS_EC2_METADATA_DISABLED is "true".
// Not supported are roles to assume, SSO, web identities and credential processes: such a profile
// is kInvalid, with this reason.
//
// Thread-safe. Keys are asked for again five minutes before they expire; if that fails while they
// are good, they are used on, and asked for again half a minute later.
class AwsCredentials {
 public:
  explicit AwsCredentials(Environment environment, const Clock& clock = SystemClock());
  ~AwsCredentials();

  // kInvalid if there are none, with where they were looked for; kUnavailable if an endpoint does
  // not answer.
  Credentials Get();

  // A server refused these. Reads them anew where they come from; whether that gave other keys.
  bool Renew(const Credentials& refused);

 private:
  class Source;
  TimedCredentials Load();

  Environment environment_;
  const Clock& clock_;
  std::unique_ptr<Source> source_;
  std::mutex mutex_;
  std::optional<TimedCredentials> held_;
  MonotonicTime not_before_;  // of the next try to refresh
};

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_AWS_CREDENTIALS_H_
