#include "isthmus/store/http_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>

#include "isthmus/base/error.h"
#include "isthmus/store/ascii.h"
#include "isthmus/store/retry.h"

namespace isthmus::store {
namespace {

namespace json = boost::json;

constexpr uint64_t kMaxTokenBytes = 16 << 10;
constexpr uint64_t kMaxListBytes = uint64_t{256} << 20;

std::string BaseOf(const std::string& location) {
  const HttpUrl url = HttpUrl::Parse(location);
  return url.Origin() + url.path;
}

std::string ReadToken(const std::string& path) {
  if (path.empty()) return "";
  const std::string text = ReadFile(path, kMaxTokenBytes);
  std::string token(Trim(text));
  const bool valid =
      !token.empty() && std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7F'; });
  if (!valid) {
    Throw(ErrorCode::kInvalid, "read {}: expected one line with a token, without blanks", path);
  }
  return token;
}

// nullopt for an answer that is no listing.
std::optional<std::vector<std::string>> ParseKeys(const std::string& body) {
  boost::system::error_code error;
  const json::value document = json::parse(body, error);
  if (error || !document.is_object()) return std::nullopt;
  const json::value* const list = document.as_object().if_contains("keys");
  if (list == nullptr || !list->is_array()) return std::nullopt;
  std::vector<std::string> keys;
  for (const json::value& key : list->as_array()) {
    if (!key.is_string()) return std::nullopt;
    keys.emplace_back(key.as_string());
  }
  return keys;
}

// "…/runs" was asked for, and "…/runs/" was found.
bool IsFolder(const std::string& asked, const HttpAnswer& answer) {
  return answer.url != asked && answer.url.ends_with('/');
}

}  // namespace

HttpStore::HttpStore(const std::string& location, const StoreOptions& options)
    : base_(BaseOf(location)),
      options_(options),
      transport_(LimitsOf(options.ca_file, options)),
      token_(ReadToken(options.token_file)) {}

std::string HttpStore::Token() const {
  const std::lock_guard lock(mutex_);
  return token_;
}

// Tokens are replaced while programs run.
bool HttpStore::RenewToken(const std::string& refused) {
  if (options_.token_file.empty()) return false;
  const std::string token = ReadToken(options_.token_file);
  const std::lock_guard lock(mutex_);
  token_ = token;
  return token_ != refused;
}

HttpAnswer HttpStore::Ask(HttpRequest request, uint64_t transfer_bytes) {
  request.follow_redirects = true;
  const HttpHeaders headers = request.headers;
  Retries retries = RetriesWithin(options_.deadline + TimeFor(transfer_bytes));
  for (bool renewed = false;;) {
    const std::string token = Token();
    request.headers = headers;
    if (!token.empty()) request.headers.emplace_back("authorization", "Bearer " + token);
    request.timeout = retries.left();
    HttpAnswer answer = transport_.Perform(request);
    const bool whole = answer.failure.empty();
    if (whole && !IsTransient(answer.status)) {
      if (answer.status != 401 || renewed || !RenewToken(token)) return answer;
      renewed = true;
      continue;
    }
    const auto delay = retries.Next(RetryAfter(answer));
    if (!delay) {
      Throw(ErrorCode::kUnavailable, "gave up after {} tries, at last: {}", retries.tries(),
            whole ? fmt::format("status {}", answer.status) : answer.failure);
    }
    if (!WaitUnlessStopped(*delay, options_.stop)) {
      Throw(ErrorCode::kUnavailable, "given up, for the program ends; at last: {}",
            whole ? fmt::format("status {}", answer.status) : answer.failure);
    }
  }
}

HttpAnswer HttpStore::Read(const ReadRequest& request) {
  HttpRequest http;
  http.method = request.method;
  http.url = fmt::format("{}/{}", base_, PercentEncode(request.key, /*keep_slashes=*/true));
  http.headers = request.headers;
  http.sink = request.sink;
  HttpAnswer answer = Ask(http, request.transfer_bytes);
  if (answer.status == 410 || IsFolder(http.url, answer)) answer.status = 404;
  switch (answer.status) {
    case 200:
    case 206:
    case 404:
    case 412:
    case 416:
      return answer;
    case 401:
    case 403:
      Throw(ErrorCode::kInvalid,
            "status {}: the server asks for another token (--board-token-file)", answer.status);
    default:
      Throw(answer.status >= 500 ? ErrorCode::kUnavailable : ErrorCode::kInvalid, "status {}",
            answer.status);
  }
}

std::optional<std::string> HttpStore::Get(const std::string& key, uint64_t max_bytes) {
  CheckKey(key);
  return reader_.Get(key, max_bytes);
}

std::string HttpStore::GetRange(const std::string& key, uint64_t offset, uint64_t length) {
  CheckKey(key);
  return reader_.GetRange(key, offset, length);
}

std::optional<uint64_t> HttpStore::Size(const std::string& key) {
  CheckKey(key);
  return reader_.Size(key);
}

void HttpStore::Fetch(const std::string& key, const fs::path& file, uint64_t max_bytes,
                      const TransferProgress& progress) {
  CheckKey(key);
  reader_.Fetch(key, file, max_bytes, progress);
}

std::vector<std::string> HttpStore::List(const std::string& prefix) {
  try {
    HttpRequest request;
    request.url = fmt::format("{}/?list={}", base_, PercentEncode(prefix));
    request.max_body_bytes = kMaxListBytes;
    const HttpAnswer answer = Ask(request, 0);
    auto keys = answer.status == 200 ? ParseKeys(answer.body) : std::nullopt;
    if (!keys) {
      Throw(ErrorCode::kUnavailable,
            "the server does not list keys (status {}): \"isthmus board serve\" does, servers of "
            "plain files do not",
            answer.status);
    }
    std::erase_if(*keys,
                  [&](const std::string& key) { return !IsKey(key) || !key.starts_with(prefix); });
    std::ranges::sort(*keys);
    return std::move(*keys);
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("list {} in {}", prefix.substr(0, 256), base_));
  }
}

void HttpStore::RefuseToWrite(const std::string& key) const {
  CheckKey(key);
  Throw(ErrorCode::kInvalid, "write {} in {}: a board over HTTP is read-only", key, base_);
}

void HttpStore::Put(const std::string& key, ByteSpan /*content*/) { RefuseToWrite(key); }

FileDigest HttpStore::PutFile(const std::string& key, const fs::path& /*file*/,
                              const TransferProgress& /*progress*/) {
  RefuseToWrite(key);
}

bool HttpStore::Create(const std::string& key, ByteSpan /*content*/) { RefuseToWrite(key); }

void HttpStore::Delete(const std::string& key) { RefuseToWrite(key); }

}  // namespace isthmus::store
