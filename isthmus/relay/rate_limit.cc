#include "isthmus/relay/rate_limit.h"

#include <algorithm>

namespace isthmus::relay {

using std::chrono::ceil;
using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A bucket that is full again at F holds rate * (1 s - (F - now)) bytes: below nothing if F is more
// than a second away.
milliseconds RateLimit::Take(const std::string& address, uint64_t bytes, MonotonicTime now) {
  if (rate_ == 0) return milliseconds(0);
  if (buckets_.size() >= sweep_at_) ForgetFull(now);
  MonotonicTime& full_at = buckets_.try_emplace(address, now).first->second;
  const duration<double> cost(static_cast<double>(bytes) / static_cast<double>(rate_));
  full_at = std::max(full_at, now) + std::chrono::duration_cast<MonotonicTime::duration>(cost);
  return std::max(milliseconds(0), ceil<milliseconds>(full_at - now - seconds(1)));
}

void RateLimit::ForgetFull(MonotonicTime now) {
  std::erase_if(buckets_, [&](const auto& bucket) { return bucket.second <= now; });
  // Twice what is left: so a sweep costs little for each address that came in between.
  sweep_at_ = std::max<size_t>(1024, 2 * buckets_.size());
}

std::string AddressOf(std::string_view peer) {
  return std::string(peer.substr(0, std::min(peer.rfind(':'), peer.size())));
}

}  // namespace isthmus::relay
