// When to try again: exponential back-off with full jitter, up to a deadline.
// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
#ifndef ISTHMUS_STORE_RETRY_H_
#define ISTHMUS_STORE_RETRY_H_

#include <chrono>
#include <optional>
#include <stop_token>

#include "isthmus/base/clock.h"
#include "isthmus/base/random.h"

namespace isthmus::store {

struct RetryLimits {
  std::chrono::milliseconds first_delay{100};
  std::chrono::milliseconds longest_delay{10'000};
  // From the begin of an operation to the end of its last try.
  std::chrono::milliseconds deadline{120'000};
};

// The tries of one operation. The first one has begun when this is made. Not thread-safe.
class Retries {
 public:
  // The clock and the random source must outlive this.
  explicit Retries(const RetryLimits& limits, const Clock& clock = SystemClock(),
                   RandomSource& random = SystemRandom());

  // How long to wait before the next try: a random time up to first_delay * 2^n, longest_delay and
  // what is left less a tenth of a second for the try itself, but no less than `asked`, the
  // server's wish. nullopt if there is no time for that.
  std::optional<std::chrono::milliseconds> Next(std::chrono::milliseconds asked = {});

  // What is left until the deadline, at least 0.
  std::chrono::milliseconds left() const;
  int tries() const { return tries_; }

 private:
  RetryLimits limits_;
  const Clock& clock_;
  RandomSource& random_;
  MonotonicTime deadline_;
  std::chrono::milliseconds bound_;
  int tries_ = 1;
};

// Waits before a next try. False as soon as a stop is requested.
bool WaitUnlessStopped(std::chrono::milliseconds delay, const std::stop_token& stop);

// With the delays above and this deadline.
inline Retries RetriesWithin(std::chrono::milliseconds deadline) {
  RetryLimits limits;
  limits.deadline = deadline;
  return Retries(limits);
}

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_RETRY_H_
