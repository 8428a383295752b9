// How a request to S3 comes to an answer:
//
//  1. It is signed for this try: the signature has a date, and keys and region may have changed.
//  The
//     payload's SHA-256 is always signed: whoever changes the body on the way is found out, and so
//     is a buffer that went bad, over plain HTTP as well.
//  2. No whole answer (no connection, a reset, a stall, a body that ended too soon), 408, 409, 425,
//  429,
//     500, 502, 503, 504 and the codes SlowDown, RequestTimeout, InternalError and so on, in a late
//     error after a 200 too, are tried again, after a random and growing delay and no sooner than
//     Retry-After says, until the deadline. (409 is a conflict of two writes at a time, in which S3
//     decides nothing: a key that exists gives 412.)
//  3. What one more try with other means can mend is tried at once, each of these once in a
//  request:
//     keys that the server does not accept are read anew, and tried if they are others; a date that
//     it does not accept is taken from its own clock from then on; a region that it names is gone
//     to. Answers to HEAD have no body, so there status and headers decide alone.
//  4. Redirects are not followed: the signature is for one host, and what is redirected can mean
//     another bucket of this name elsewhere.
//  5. All else is an error, with the server's code and words.
#include "isthmus/store/s3_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "isthmus/base/error.h"
#include "isthmus/store/retry.h"
#include "isthmus/store/xml.h"

namespace isthmus::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Amazon refuses dates that are a quarter of an hour off.
constexpr int64_t kSkewSeconds = 5 * 60;
constexpr size_t kMaxQuotedBytes = 300;

bool Contains(const auto& list, const auto& item) {
  return std::ranges::find(list, item) != std::ranges::end(list);
}

bool IsAnswer(const S3Request& request, int status) {
  return (status >= 200 && status < 300) || Contains(request.answers, status);
}

// Of a request that can fail after its 200 was sent, 2xx bodies too are looked at.
S3Error ErrorIn(const S3Request& request, const HttpAnswer& answer) {
  const bool success = answer.status >= 200 && answer.status < 300;
  const bool can_have_one =
      success ? request.fails_late : !Contains(request.answers, answer.status);
  return can_have_one ? ParseS3Error(answer.body) : S3Error();
}

bool IsTransientCode(const std::string& code) {
  constexpr std::array kCodes = {"SlowDown",
                                 "RequestTimeout",
                                 "InternalError",
                                 "ServiceUnavailable",
                                 "OperationAborted",
                                 "ThrottlingException",
                                 "ConditionalRequestConflict"};
  return Contains(kCodes, code);
}

// Whether other keys may help. The answer to a HEAD has no code, and is 400 for keys that expired.
bool IsAboutKeys(const HttpAnswer& answer, const std::string& code) {
  constexpr std::array kCodes = {"ExpiredToken", "InvalidToken", "TokenRefreshRequired",
                                 "ExpiredTokenException"};
  return answer.status == 401 || answer.status == 403 || Contains(kCodes, code) ||
         (answer.status == 400 && answer.body.empty());
}

std::string Quote(std::string_view text) {
  std::string quoted(text.substr(0, kMaxQuotedBytes));
  std::ranges::replace_if(
      quoted, [](char c) { return c >= 0 && c < ' '; }, ' ');
  return quoted;
}

std::string WordsOf(const HttpAnswer& answer, const S3Error& error) {
  if (!answer.failure.empty()) return answer.failure;
  std::string words = fmt::format("status {}", answer.status);
  if (!error.code.empty()) words += fmt::format(" {}: {}", Quote(error.code), Quote(error.message));
  return words;
}

[[noreturn]] void ThrowRefusal(const HttpAnswer& answer, const S3Error& error) {
  if (answer.status == 404) Throw(ErrorCode::kNotFound, "{}", WordsOf(answer, error));
  if (answer.status >= 300 && answer.status < 400) {
    Throw(
        ErrorCode::kInvalid,
        "{}, redirected to {:?}: name the right endpoint (--s3-endpoint) and region (--s3-region)",
        WordsOf(answer, error), Quote(answer.Header("location")));
  }
  if (answer.status >= 500 && answer.status != 501) {
    Throw(ErrorCode::kUnavailable, "{}", WordsOf(answer, error));
  }
  Throw(ErrorCode::kInvalid, "{}", WordsOf(answer, error));
}

}  // namespace

milliseconds RetryAfter(const HttpAnswer& answer) {
  const std::string_view value = answer.Header("retry-after");
  const bool digits = !value.empty() && value.size() <= 5 &&
                      std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? seconds(std::stoi(std::string(value))) : milliseconds(0);
}

S3Error ParseS3Error(const std::string& body) {
  try {
    const std::vector<XmlLeaf> leaves = ParseXml(body);
    return {TextAt(leaves, "Error/Code"), TextAt(leaves, "Error/Message"),
            TextAt(leaves, "Error/Region")};
  } catch (const Error&) {
    return {};  // a proxy's words, or none
  }
}

// What was tried in one request.
struct S3Client::Tries {
  Retries retries;
  std::optional<milliseconds> delay = {};  // before the next try
  bool renewed_keys = false;
  bool corrected_clock = false;
  bool moved_region = false;
  std::string region = {};     // of this try
  int64_t clock_offset_s = 0;  // of this try
};

S3Client::S3Client(S3Settings settings, const StoreOptions& options, Environment environment)
    : description_(settings.Describe()),
      deadline_(options.deadline),
      stop_(options.stop),
      transport_(LimitsOf(settings.ca_file, options)),
      credentials_(std::move(environment)),
      settings_(std::move(settings)) {}

S3Settings S3Client::settings() const {
  const std::lock_guard lock(mutex_);
  return settings_;
}

std::string S3Client::Header(std::string_view name) const {
  return std::string(settings().dialect.header_prefix) + std::string(name);
}

std::pair<std::string, std::string> S3Client::CreateOnly() const {
  const bool google = settings().dialect.header_prefix == kGoogleDialect.header_prefix;
  if (google) return {"x-goog-if-generation-match", "0"};
  return {"if-none-match", "*"};
}

HttpRequest S3Client::Sign(const S3Request& request, const Credentials& keys) const {
  const S3Settings to = settings();
  const std::string path = to.Path(request.key);
  const RequestToSign parts = {request.method, to.Host(),       path,
                               request.query,  request.headers, request.body_sha256->Hex()};
  const std::string query = CanonicalQuery(request.query);
  HttpRequest http;
  http.method = request.method;
  http.url = to.Url(path) + (query.empty() ? "" : "?" + query);
  http.headers = store::Sign(parts, to.dialect, keys, to.region,
                             SystemClock().Now() + seconds(clock_offset_s_.load()));
  http.body = request.body;
  http.sink = request.sink;
  http.max_body_bytes = request.max_body_bytes;
  http.patient = request.fails_late;
  return http;
}

S3Answer S3Client::Send(const S3Request& given) {
  S3Request request = given;
  if (!request.body_sha256) request.body_sha256 = Sha256(request.body);  // once for all tries
  Tries tries{RetriesWithin(request.deadline.value_or(deadline_) + TimeFor(request.transfer_bytes)),
              {}};
  for (int earlier = 0;; ++earlier) {
    const Credentials keys = credentials_.Get();
    tries.region = settings().region;
    tries.clock_offset_s = clock_offset_s_;
    HttpRequest http = Sign(request, keys);
    http.timeout = tries.retries.left();
    HttpAnswer answer = transport_.Perform(http);
    const S3Error error = ErrorIn(request, answer);
    if (answer.failure.empty() && error.code.empty() && IsAnswer(request, answer.status)) {
      return {std::move(answer), earlier};
    }
    if (!Understand(answer, error, keys, &tries)) ThrowRefusal(answer, error);
    if (!tries.delay) {
      Throw(ErrorCode::kUnavailable, "gave up after {}, at last: {}",
            tries.retries.tries() == 1 ? "1 try" : fmt::format("{} tries", tries.retries.tries()),
            WordsOf(answer, error));
    }
    if (!WaitUnlessStopped(*tries.delay, stop_)) {
      Throw(ErrorCode::kUnavailable, "given up, for the program ends; at last: {}",
            WordsOf(answer, error));
    }
  }
}

// Whether one more try may help; tries->delay says when, if there is time.
bool S3Client::Understand(const HttpAnswer& answer, const S3Error& error, const Credentials& keys,
                          Tries* tries) {
  if (!answer.failure.empty() || IsTransient(answer.status) || answer.status == 409 ||
      IsTransientCode(error.code)) {
    tries->delay = tries->retries.Next(RetryAfter(answer));
    return true;
  }
  tries->delay = milliseconds(0);
  if (CorrectClock(answer, error, tries) || MoveRegion(answer, error, tries)) return true;
  if (!IsAboutKeys(answer, error.code) || tries->renewed_keys) return false;
  tries->renewed_keys = true;
  return credentials_.Renew(keys);
}

bool S3Client::CorrectClock(const HttpAnswer& answer, const S3Error& error, Tries* tries) {
  const bool said = error.code == "RequestTimeTooSkewed" || error.code == "RequestExpired";
  if (tries->corrected_clock || (!said && (answer.status != 403 || !answer.body.empty())))
    return false;
  const time_t server = curl_getdate(std::string(answer.Header("date")).c_str(), nullptr);
  if (server == -1) return false;
  const int64_t offset = server - std::chrono::system_clock::to_time_t(SystemClock().Now());
  if (std::abs(offset - tries->clock_offset_s) < kSkewSeconds) return false;
  clock_offset_s_ = offset;
  return tries->corrected_clock = true;
}

bool S3Client::MoveRegion(const HttpAnswer& answer, const S3Error& error, Tries* tries) {
  const bool wrong =
      answer.status == 301 || answer.status == 307 || answer.status == 308 || answer.status == 400;
  std::string region(answer.Header("x-amz-bucket-region"));
  if (region.empty()) region = error.region;
  if (!wrong || tries->moved_region || region.empty() || region == tries->region) return false;
  const std::lock_guard lock(mutex_);
  if (region != settings_.region) settings_.MoveTo(region);
  return tries->moved_region = true;
}

HttpAnswer S3Client::Read(const ReadRequest& request) {
  S3Request s3;
  s3.method = request.method;
  s3.key = request.key;
  s3.headers = request.headers;
  s3.sink = request.sink;
  s3.transfer_bytes = request.transfer_bytes;
  s3.answers = {404, 412, 416};
  HttpAnswer answer = Send(s3).http;
  if (answer.status == 404) {
    const S3Error error = ParseS3Error(answer.body);
    if (error.code == "NoSuchBucket") ThrowRefusal(answer, error);
  }
  return answer;
}

}  // namespace isthmus::store
