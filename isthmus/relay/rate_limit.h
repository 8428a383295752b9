// So many bytes a second for each client address. Pure: time is given.
#ifndef ISTHMUS_RELAY_RATE_LIMIT_H_
#define ISTHMUS_RELAY_RATE_LIMIT_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "isthmus/base/clock.h"

namespace isthmus::relay {

// A token bucket an address, full with the bytes of one second. Not thread-safe.
class RateLimit {
 public:
  // 0: no limit.
  explicit RateLimit(uint64_t bytes_per_second) : rate_(bytes_per_second) {}

  // Takes the bytes at once, into debt if need be, and says how long to wait before they are sent.
  // So a piece larger than a bucket passes too, and all connections of an address share its rate.
  std::chrono::milliseconds Take(const std::string& address, uint64_t bytes, MonotonicTime now);

  // Addresses that are remembered: those that took something a short while ago.
  size_t addresses() const { return buckets_.size(); }

 private:
  void ForgetFull(MonotonicTime now);

  uint64_t rate_;
  // When each bucket is full again; one that is full need not be known.
  std::unordered_map<std::string, MonotonicTime> buckets_;
  size_t sweep_at_ = 1024;
};

// "address:port" without the port.
std::string AddressOf(std::string_view peer);

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_RATE_LIMIT_H_
