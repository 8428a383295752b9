// A server that answers for objects by HTTP: what reading them needs, whether S3 or plain HTTP.
#ifndef ISTHMUS_STORE_OBJECT_SERVER_H_
#define ISTHMUS_STORE_OBJECT_SERVER_H_

#include <chrono>
#include <string>

#include "isthmus/store/http_transport.h"

namespace isthmus::store {

struct ReadRequest {
  std::string method = "GET";  // or HEAD
  std::string key;
  HttpHeaders headers;
  HttpSink* sink = nullptr;     // begins again with each try
  uint64_t transfer_bytes = 0;  // about so many are expected: the time for it
};

// Implementations are thread-safe.
class ObjectServer {
 public:
  virtual ~ObjectServer() = default;
  virtual std::string Describe() const = 0;
  // Sends the request until there is an answer with status 200, 206, 404 (the object is missing),
  // 412 (If-Match) or 416; all else is an Error. What a sink throws comes out as it is. Errors do
  // not name key and server: the caller does.
  virtual HttpAnswer Read(const ReadRequest& request) = 0;
};

// The more time for so many bytes: at the slowest 256 KiB/s.
inline std::chrono::milliseconds TimeFor(uint64_t bytes) {
  constexpr uint64_t kBytesPerMillisecond = (256 << 10) / 1000;
  constexpr uint64_t kMost = uint64_t{1} << 40;  // a size that a caller only wishes for
  return std::chrono::milliseconds((bytes < kMost ? bytes : kMost) / kBytesPerMillisecond);
}

// The delay that a Retry-After header asks for, in seconds; none for dates and nonsense.
std::chrono::milliseconds RetryAfter(const HttpAnswer& answer);

// Whether a status says that the same request may succeed later.
inline bool IsTransient(int status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 ||
         status == 503 || status == 504;
}

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_OBJECT_SERVER_H_
