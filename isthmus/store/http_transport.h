// One HTTP/1.1 request and its answer, on libcurl: connections are kept and used again, nothing
// waits for ever, nothing grows beyond a limit.
#ifndef ISTHMUS_STORE_HTTP_TRANSPORT_H_
#define ISTHMUS_STORE_HTTP_TRANSPORT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isthmus/base/bytes.h"
#include "isthmus/store/store.h"

namespace isthmus::store {

// Names and values in the order in which they are sent; names of an answer are in lower case.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpAnswer {
  int status = 0;
  HttpHeaders headers;
  // What no sink took: of an answer that is not 2xx, its first kMaxErrorBytes.
  std::string body;
  // Where the answer came from; another place than asked if a redirect was followed.
  std::string url;
  // Empty, or why there is no whole answer: no connection, a reset, a stall, a body that ended too
  // soon, the time limit. Then the request may have been carried out or not.
  std::string failure;

  // The value of a header, empty if there is none. `name` in lower case.
  std::string_view Header(std::string_view name) const;
};
inline constexpr uint64_t kMaxErrorBytes = 64 << 10;

// Takes the body of a 2xx answer piece by piece. What it throws ends the transfer and comes out of
// Perform as it is.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  // The answer's status and headers, before its first piece. A request that is tried again begins
  // again: what came before counts no more.
  virtual void Begin(const HttpAnswer& head) = 0;
  virtual void Write(ByteSpan piece) = 0;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  HttpHeaders headers;
  ByteSpan body;  // must outlive the call
  HttpSink* sink = nullptr;
  // Without a sink: the largest body of a 2xx answer.
  uint64_t max_body_bytes = 1 << 20;
  std::chrono::milliseconds timeout{60'000};
  bool patient = false;  // only the timeout ends a transfer, no stall
  // Follow up to five redirects, none from https to http. `Authorization` goes to no other host.
  bool follow_redirects = false;
  // Past any proxy that the environment names: for addresses of this machine.
  bool direct = false;
};

struct HttpLimits {
  std::string ca_file;  // PEM file of authorities; empty: the system's
  std::chrono::milliseconds connect{10'000};
  // A transfer that makes less than 1 KiB/s for so long is given up. In whole seconds.
  std::chrono::milliseconds stall{30'000};
  std::stop_token stop = {};  // ends transfers: a failure in the answer
};
inline HttpLimits LimitsOf(const std::string& ca_file, const StoreOptions& options) {
  HttpLimits limits;
  limits.ca_file = ca_file;
  limits.stall = options.stall;
  limits.stop = options.stop;
  return limits;
}

// Thread-safe: as many requests at a time as there are callers, each on a connection of its own.
class HttpTransport {
 public:
  // kNotFound if limits.ca_file is named and is not there.
  explicit HttpTransport(HttpLimits limits);
  ~HttpTransport();
  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;

  // Sends the request once. Throws kInvalid for what no repetition mends (a malformed URL or
  // header, a certificate that cannot be trusted, too many redirects), kCorrupt for a 2xx body
  // above max_body_bytes; other failures are in the answer.
  HttpAnswer Perform(const HttpRequest& request);

 private:
  struct Handles;
  HttpLimits limits_;
  std::unique_ptr<Handles> handles_;
};

// `text` with all but unreserved characters (RFC 3986, section 2.3) as %XX; '/' too unless kept.
std::string PercentEncode(std::string_view text, bool keep_slashes = false);

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_HTTP_TRANSPORT_H_
