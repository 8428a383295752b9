#include "isthmus/store/aws_credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <thread>

#include "isthmus/base/error.h"
#include "isthmus/base/file.h"
#include "isthmus/store/ascii.h"
#include "isthmus/store/aws_config.h"
#include "isthmus/store/http_url.h"
#include "isthmus/store/retry.h"

namespace isthmus::store {
namespace {

namespace json = boost::json;

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr auto kRefreshBefore = minutes(5);
constexpr auto kRefreshAgain = seconds(30);
// These endpoints are on the machine or beside it: they answer at once or are not there.
constexpr milliseconds kEndpointConnect = seconds(1);
constexpr milliseconds kEndpointTimeout = seconds(3);
constexpr milliseconds kEndpointDeadline = seconds(6);
constexpr uint64_t kMaxAnswerBytes = 64 << 10;
constexpr uint64_t kMaxTokenBytes = 16 << 10;
constexpr char kContainerHost[] = "http://169.254.170.2";
constexpr char kMetadataHost[] = "http://169.254.169.254";
constexpr char kTokenPath[] = "/latest/api/token";
constexpr char kRolePath[] = "/latest/meta-data/iam/security-credentials/";
constexpr char kTokenSeconds[] = "21600";  // the longest that the service gives

std::string FieldOf(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

// "2026-01-31T09:30:00Z", with or without a fraction.
std::optional<WallTime> ParseExpiration(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return ParseTime(text.substr(0, 19) + ".000Z");
}

}  // namespace

TimedCredentials ParseCredentials(std::string_view json_text) {
  boost::system::error_code error;
  const json::value document = json::parse(json_text, error);
  const json::object* const object = error ? nullptr : document.if_object();
  if (object == nullptr) Throw(ErrorCode::kCorrupt, "read credentials: not a JSON object");
  TimedCredentials credentials;
  credentials.keys = {FieldOf(*object, "AccessKeyId"), FieldOf(*object, "SecretAccessKey"),
                      FieldOf(*object, "Token")};
  if (credentials.keys.key_id.empty() || credentials.keys.secret.empty()) {
    Throw(ErrorCode::kCorrupt, "read credentials: AccessKeyId or SecretAccessKey is missing");
  }
  credentials.expires = ParseExpiration(FieldOf(*object, "Expiration"));
  return credentials;
}

// The endpoints that give credentials, and the order in which all places are looked at.
class AwsCredentials::Source {
 public:
  explicit Source(const Environment& environment)
      : environment_(environment), transport_({"", kEndpointConnect, kEndpointTimeout}) {}

  TimedCredentials Load() {
    if (const auto keys = FromEnvironment()) return *keys;
    const AwsProfile profile = ReadAwsProfile(environment_);
    if (const auto keys = FromProfile(profile)) return *keys;
    if (const auto keys = FromContainer()) return *keys;
    if (environment_("AWS_EC2_METADATA_DISABLED") != "true") return FromInstance(profile);
    Throw(ErrorCode::kInvalid, "find credentials for S3: none in {}", Places(profile));
  }

 private:
  std::optional<TimedCredentials> FromEnvironment() const {
    Credentials keys = {environment_("AWS_ACCESS_KEY_ID"), environment_("AWS_SECRET_ACCESS_KEY"),
                        environment_("AWS_SESSION_TOKEN")};
    if (keys.key_id.empty() || keys.secret.empty()) return std::nullopt;
    return TimedCredentials{std::move(keys), std::nullopt};
  }

  std::optional<TimedCredentials> FromProfile(const AwsProfile& profile) const {
    Credentials keys = {profile.Setting("aws_access_key_id"),
                        profile.Setting("aws_secret_access_key"),
                        profile.Setting("aws_session_token")};
    if (!keys.key_id.empty() && !keys.secret.empty()) {
      return TimedCredentials{std::move(keys), std::nullopt};
    }
    for (const char* way : {"role_arn", "sso_session", "sso_start_url", "credential_process"}) {
      if (profile.Setting(way).empty()) continue;
      Throw(ErrorCode::kInvalid,
            "find credentials for S3: profile {} uses {}, which is not supported; set "
            "AWS_ACCESS_KEY_ID and so on, for example by \"aws configure export-credentials\"",
            profile.name, way);
    }
    if (!profile.found && !environment_("AWS_PROFILE").empty()) {
      Throw(ErrorCode::kInvalid, "find credentials for S3: no profile {} in {}", profile.name,
            profile.files);
    }
    return std::nullopt;
  }

  std::optional<TimedCredentials> FromContainer() {
    const std::string relative = environment_("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const std::string full = environment_("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (relative.empty() && full.empty()) return std::nullopt;
    const std::string url = relative.empty() ? full : kContainerHost + relative;
    CheckContainerUrl(url);
    const std::string token = ContainerToken();
    const HttpHeaders headers =
        token.empty() ? HttpHeaders() : HttpHeaders{{"authorization", token}};
    return ParseCredentials(AskFor("GET", url, headers));
  }

  // Keys must not be asked for in the clear across a network.
  static void CheckContainerUrl(const std::string& text) {
    const HttpUrl url = HttpUrl::Parse(text);
    constexpr std::array kAgents = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]",
                                    "localhost", "[::1]"};
    const bool loopback = url.host.starts_with("127.") &&
                          url.host.find_first_not_of("0123456789.") == std::string::npos;
    if (url.scheme == "https" || loopback ||
        std::ranges::find(kAgents, url.host) != kAgents.end()) {
      return;
    }
    Throw(ErrorCode::kInvalid,
          "find credentials for S3: AWS_CONTAINER_CREDENTIALS_FULL_URI is {}: expected https, or "
          "http at this machine or a container agent",
          text);
  }

  std::string ContainerToken() const {
    const std::string file = environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const std::string text = file.empty() ? environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN")
                                          : ReadFile(file, kMaxTokenBytes);
    std::string token(Trim(text));
    if (token.find_first_of("\r\n") != std::string::npos) {
      Throw(ErrorCode::kInvalid, "read {}: expected one line", file);
    }
    return token;
  }

  TimedCredentials FromInstance(const AwsProfile& profile) {
    std::string endpoint = environment_("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (endpoint.empty()) endpoint = kMetadataHost;
    while (endpoint.ends_with('/')) endpoint.pop_back();
    try {
      const std::string token = AskFor("PUT", endpoint + kTokenPath,
                                       {{"x-aws-ec2-metadata-token-ttl-seconds", kTokenSeconds}});
      const HttpHeaders headers = {{"x-aws-ec2-metadata-token", token}};
      std::string role = AskFor("GET", endpoint + kRolePath, headers);
      role = role.substr(0, role.find('\n'));
      return ParseCredentials(AskFor("GET", endpoint + kRolePath + role, headers));
    } catch (const Error& error) {
      // Elsewhere than on such an instance the user forgot the keys.
      const auto code = error.code() == ErrorCode::kUnavailable && !profile.found
                            ? ErrorCode::kInvalid
                            : error.code();
      Throw(code, "find credentials for S3: none in {}, and the instance's metadata: {}",
            Places(profile), error.what());
    }
  }

  std::string AskFor(const std::string& method, const std::string& url,
                     const HttpHeaders& headers) {
    HttpRequest request;
    request.method = method;
    request.url = url;
    request.headers = headers;
    request.direct = true;
    request.timeout = kEndpointTimeout;
    request.max_body_bytes = kMaxAnswerBytes;
    Retries retries = RetriesWithin(kEndpointDeadline);
    for (;;) {
      const HttpAnswer answer = transport_.Perform(request);
      if (answer.failure.empty() && answer.status == 200) return answer.body;
      const std::string why =
          answer.failure.empty() ? fmt::format("status {}", answer.status) : answer.failure;
      const bool refused = answer.failure.empty() && answer.status < 500 && answer.status != 429;
      const auto delay = refused ? std::nullopt : retries.Next();
      if (!delay) Throw(ErrorCode::kUnavailable, "{} {}: {}", method, url, why);
      std::this_thread::sleep_for(*delay);
    }
  }

  static std::string Places(const AwsProfile& profile) {
    return fmt::format("AWS_ACCESS_KEY_ID, profile {} of {}, AWS_CONTAINER_CREDENTIALS_…",
                       profile.name, profile.files);
  }

  const Environment& environment_;
  HttpTransport transport_;
};

AwsCredentials::AwsCredentials(Environment environment, const Clock& clock)
    : environment_(std::move(environment)),
      clock_(clock),
      source_(std::make_unique<Source>(environment_)) {}

AwsCredentials::~AwsCredentials() = default;

TimedCredentials AwsCredentials::Load() {
  not_before_ = clock_.Monotonic() + kRefreshAgain;
  held_ = source_->Load();
  return *held_;
}

Credentials AwsCredentials::Get() {
  const std::lock_guard lock(mutex_);
  if (!held_) return Load().keys;
  const WallTime now = clock_.Now();
  const bool soon = held_->expires && *held_->expires - kRefreshBefore <= now;
  if (!soon || clock_.Monotonic() < not_before_) return held_->keys;
  try {
    return Load().keys;
  } catch (const Error&) {
    if (*held_->expires <= now) throw;
    return held_->keys;
  }
}

bool AwsCredentials::Renew(const Credentials& refused) {
  const std::lock_guard lock(mutex_);
  const auto other = [&] {
    return held_->keys.key_id != refused.key_id || held_->keys.secret != refused.secret ||
           held_->keys.session_token != refused.session_token;
  };
  if (held_ && other()) return true;  // another thread was here
  Load();
  return other();
}

}  // namespace isthmus::store
