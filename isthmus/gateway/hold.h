// A time for which something is kept away, doubled each time that it is earned again. Pure.
#ifndef ISTHMUS_GATEWAY_HOLD_H_
#define ISTHMUS_GATEWAY_HOLD_H_

#include <algorithm>
#include <array>
#include <chrono>

#include "isthmus/base/clock.h"

namespace isthmus::gateway {

using std::chrono::milliseconds;

class Hold {
 public:
  struct Times {
    milliseconds first;
    milliseconds most;
    milliseconds forgotten;  // after its end: then the next one is a first one
  };

  explicit constexpr Hold(Times times) : times_(times) {}

  void Begin(MonotonicTime now) {
    const bool again = last_ != milliseconds::zero() && now < until_ + times_.forgotten;
    last_ = again ? std::min(2 * last_, times_.most) : times_.first;
    until_ = now + last_;
  }
  bool Active(MonotonicTime now) const { return last_ != milliseconds::zero() && now < until_; }
  // Only what Begin has set.
  MonotonicTime until() const { return until_; }

 private:
  Times times_;
  milliseconds last_{0};
  MonotonicTime until_{};
};

// Who comes back more than three times in a minute waits.
class FlapDamper {
 public:
  void OnReturn(MonotonicTime now) {
    const bool often = returns_ >= times_.size() && now - times_[next_] < std::chrono::minutes(1);
    times_[next_] = now;
    next_ = (next_ + 1) % times_.size();
    ++returns_;
    if (often) hold_.Begin(now);
  }
  const Hold& hold() const { return hold_; }

 private:
  std::array<MonotonicTime, 3> times_{};  // of the last returns, a ring
  size_t next_ = 0;
  size_t returns_ = 0;
  Hold hold_{{milliseconds(1'000), milliseconds(60'000), milliseconds(60'000)}};
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_HOLD_H_
