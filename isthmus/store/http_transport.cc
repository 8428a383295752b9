#include "isthmus/store/http_transport.h"

#include <curl/curl.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "isthmus/base/error.h"
#include "isthmus/base/file.h"
#include "isthmus/store/ascii.h"

namespace isthmus::store {
namespace {

using Milliseconds = std::chrono::milliseconds;

// Handles that are kept for later, each with its connections: as many as a busy publisher or
// replica uses at once.
constexpr size_t kMaxIdleHandles = 64;
constexpr uint64_t kMaxHeaderBytes = 64 << 10;
constexpr size_t kMaxHeaderCount = 256;
constexpr long kSlowestBytesPerSecond = 1024;
constexpr long kTransferBuffer = 512 << 10;  // the most that libcurl takes for receiving
constexpr long kMaxRedirects = 5;

struct EasyDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using Easy = std::unique_ptr<CURL, EasyDeleter>;

class HeaderList {
 public:
  HeaderList() = default;
  ~HeaderList() { curl_slist_free_all(list_); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;

  void Add(const std::string& line) {
    curl_slist* const longer = curl_slist_append(list_, line.c_str());
    if (longer == nullptr) Throw(ErrorCode::kUnavailable, "send a request: out of memory");
    list_ = longer;
  }
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

void InitializeCurl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) {
    Throw(ErrorCode::kInternal, "start libcurl: {}", curl_easy_strerror(code));
  }
}

bool IsSuccess(int status) { return status >= 200 && status < 300; }

// One exchange as libcurl's callbacks see it. They must not throw: what goes wrong is kept.
class Exchange {
 public:
  Exchange(CURL* handle, const HttpRequest& request) : handle_(handle), request_(request) {}

  HttpAnswer answer;

  size_t ReadBody(char* out, size_t capacity) {
    const size_t count = std::min(capacity, request_.body.size() - sent_);
    std::copy_n(request_.body.data() + sent_, count, reinterpret_cast<std::byte*>(out));
    sent_ += count;
    return count;
  }
  bool Rewind(curl_off_t to) {
    if (to < 0 || static_cast<uint64_t>(to) > request_.body.size()) return false;
    sent_ = static_cast<size_t>(to);
    return true;
  }
  bool TakeHeader(std::string_view line) {
    return Guarded([&] { ParseHeader(line); });
  }
  bool TakePiece(ByteSpan piece) {
    if (stopped_) return false;
    return Guarded([&] { TakeBody(piece); }) && !stopped_;
  }
  // What a callback threw, rethrown.
  void RethrowFailure() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  // An error's text was long enough: the transfer was ended on purpose.
  bool stopped() const { return stopped_; }
  // Begins a sink that got no piece, for the body was empty.
  void Finish() {
    if (IsSuccess(answer.status)) BeginSink();
  }

 private:
  template <typename Action>
  bool Guarded(const Action& action) {
    try {
      action();
      return true;
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
  }

  void ParseHeader(std::string_view line) {
    header_bytes_ += line.size();
    if (header_bytes_ > kMaxHeaderBytes || answer.headers.size() > kMaxHeaderCount) {
      Throw(ErrorCode::kCorrupt, "{} {}: more than {} bytes or {} lines of headers",
            request_.method, request_.url, kMaxHeaderBytes, kMaxHeaderCount);
    }
    if (line.starts_with("HTTP/")) return answer.headers.clear();  // a redirect's, or of "100"
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    answer.headers.emplace_back(ToLower(line.substr(0, colon)), Trim(line.substr(colon + 1)));
  }

  void ReadStatus() {
    long status = 0;
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    answer.status = static_cast<int>(status);
  }

  void BeginSink() {
    if (begun_ || request_.sink == nullptr) return;
    begun_ = true;
    request_.sink->Begin(answer);
  }

  void TakeBody(ByteSpan piece) {
    ReadStatus();
    if (!IsSuccess(answer.status)) return TakeErrorText(piece);
    BeginSink();
    if (request_.sink != nullptr) return request_.sink->Write(piece);
    if (answer.body.size() + piece.size() > request_.max_body_bytes) {
      Throw(ErrorCode::kCorrupt, "{} {}: the answer has more than {} bytes", request_.method,
            request_.url, request_.max_body_bytes);
    }
    answer.body.append(AsText(piece));
  }

  void TakeErrorText(ByteSpan piece) {
    const size_t room = kMaxErrorBytes - answer.body.size();
    answer.body.append(AsText(piece.first(std::min(room, piece.size()))));
    stopped_ = piece.size() > room;
  }

  CURL* handle_;
  const HttpRequest& request_;
  size_t sent_ = 0;
  uint64_t header_bytes_ = 0;
  bool begun_ = false;
  bool stopped_ = false;
  std::exception_ptr failure_;
};

size_t OnRead(char* out, size_t size, size_t count, void* exchange) {
  return static_cast<Exchange*>(exchange)->ReadBody(out, size * count);
}

int OnSeek(void* exchange, curl_off_t offset, int origin) {
  const bool sought = origin == SEEK_SET && static_cast<Exchange*>(exchange)->Rewind(offset);
  return sought ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

size_t OnHeader(const char* line, size_t size, size_t count, void* exchange) {
  const bool taken = static_cast<Exchange*>(exchange)->TakeHeader({line, size * count});
  return taken ? size * count : 0;
}

size_t OnWrite(const char* piece, size_t size, size_t count, void* exchange) {
  const bool taken = static_cast<Exchange*>(exchange)->TakePiece(AsBytes({piece, size * count}));
  return taken ? size * count : 0;
}

// libcurl calls it with every piece, and about once a second while nothing comes.
int OnProgress(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::stop_token*>(stop)->stop_requested() ? 1 : 0;
}

void SetStop(CURL* handle, const std::stop_token& stop) {
  if (!stop.stop_possible()) return;
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &stop);
}

void SetMethod(CURL* handle, const HttpRequest& request, Exchange* exchange) {
  if (request.method == "HEAD") {
    curl_easy_setopt(handle, CURLOPT_NOBODY, 1L);
    return;
  }
  if (request.method == "PUT" || request.method == "POST") {
    curl_easy_setopt(handle, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(handle, CURLOPT_INFILESIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(handle, CURLOPT_READFUNCTION, OnRead);
    curl_easy_setopt(handle, CURLOPT_READDATA, exchange);
    curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, OnSeek);
    curl_easy_setopt(handle, CURLOPT_SEEKDATA, exchange);
  }
  curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

void SetLimits(CURL* handle, const HttpRequest& request, const HttpLimits& limits) {
  const auto timeout = std::max<Milliseconds::rep>(1, request.timeout.count());
  const auto stall = std::max<Milliseconds::rep>(1, limits.stall.count() / 1000);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout));
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(limits.connect.count()));
  if (!request.patient) {
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, kSlowestBytesPerSecond);
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(stall));
  }
  curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, kTransferBuffer);
  curl_easy_setopt(handle, CURLOPT_UPLOAD_BUFFERSIZE, kTransferBuffer);
}

void SetPlace(CURL* handle, const HttpRequest& request, const HttpLimits& limits) {
  const char* const schemes = request.url.starts_with("https:") ? "https" : "http,https";
  curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, schemes);
  curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, schemes);
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, request.follow_redirects ? 1L : 0L);
  curl_easy_setopt(handle, CURLOPT_MAXREDIRS, kMaxRedirects);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(handle, CURLOPT_USERAGENT, "isthmus/" ISTHMUS_VERSION);
  if (request.direct) curl_easy_setopt(handle, CURLOPT_NOPROXY, "*");
  if (!limits.ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, limits.ca_file.c_str());
}

void SetCallbacks(CURL* handle, Exchange* exchange, char* error_text) {
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, exchange);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, OnWrite);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, exchange);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, error_text);
}

void AddHeaders(const HttpRequest& request, HeaderList* list) {
  for (const auto& [name, value] : request.headers) {
    // It would be one more header, or one more request. The value may be a secret.
    if (std::ranges::any_of(value, [](char c) { return c >= 0 && c < ' ' && c != '\t'; })) {
      Throw(ErrorCode::kInvalid, "{} {}: header {} has control characters", request.method,
            request.url, name);
    }
    // "name;" is how libcurl is told to send a header without a value.
    list->Add(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
  }
  // libcurl would wait for "100 Continue" before larger bodies, which not all servers send.
  list->Add("Expect:");
}

bool IsBeyondMending(CURLcode code) {
  switch (code) {  // NOLINT(clang-diagnostic-switch-enum)
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_TOO_MANY_REDIRECTS:
      return true;
    default:  // libcurl's list is open
      return false;
  }
}

bool IsUnreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

}  // namespace

// Handles that nobody uses. A handle keeps its connections, names and TLS sessions.
struct HttpTransport::Handles {
  Easy Take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return Easy(curl_easy_init());
    Easy handle = std::move(idle.back());
    idle.pop_back();
    return handle;
  }
  void GiveBack(Easy handle) {
    curl_easy_reset(handle.get());
    const std::lock_guard lock(mutex);
    if (idle.size() < kMaxIdleHandles) idle.push_back(std::move(handle));
  }

  std::mutex mutex;
  std::vector<Easy> idle;
};

std::string_view HttpAnswer::Header(std::string_view name) const {
  const auto found =
      std::ranges::find_if(headers, [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? std::string_view() : found->second;
}

HttpTransport::HttpTransport(HttpLimits limits) : limits_(std::move(limits)) {
  InitializeCurl();
  if (!limits_.ca_file.empty()) File::OpenRead(limits_.ca_file);
  handles_ = std::make_unique<Handles>();
}

HttpTransport::~HttpTransport() = default;

HttpAnswer HttpTransport::Perform(const HttpRequest& request) {
  Easy handle = handles_->Take();
  if (!handle) Throw(ErrorCode::kUnavailable, "send a request: out of memory");
  Exchange exchange(handle.get(), request);
  char error_text[CURL_ERROR_SIZE] = "";
  HeaderList headers;
  AddHeaders(request, &headers);
  SetPlace(handle.get(), request, limits_);
  SetLimits(handle.get(), request, limits_);
  SetStop(handle.get(), limits_.stop);
  SetMethod(handle.get(), request, &exchange);
  SetCallbacks(handle.get(), &exchange, error_text);
  curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());

  const CURLcode code = curl_easy_perform(handle.get());
  HttpAnswer& answer = exchange.answer;
  long status = 0;
  const char* url = nullptr;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(handle.get(), CURLINFO_EFFECTIVE_URL, &url);
  answer.status = static_cast<int>(status);
  if (url != nullptr) answer.url = url;
  handles_->GiveBack(std::move(handle));

  exchange.RethrowFailure();
  if (code == CURLE_OK) exchange.Finish();
  if (code == CURLE_OK || exchange.stopped()) return std::move(answer);
  const std::string why = *error_text != '\0' ? error_text : curl_easy_strerror(code);
  if (IsBeyondMending(code)) {
    Throw(ErrorCode::kInvalid, "{} {}: {}", request.method, request.url, why);
  }
  answer.failure = why;
  return std::move(answer);
}

std::string PercentEncode(std::string_view text, bool keep_slashes) {
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (IsUnreserved(c) || (keep_slashes && c == '/')) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace isthmus::store
