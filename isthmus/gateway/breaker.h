// A circuit breaker: an island that fails again and again is left alone, then tried by one request
// at a time. Rules: docs/gateway.md, "States". Pure. All O(1).
#ifndef ISTHMUS_GATEWAY_BREAKER_H_
#define ISTHMUS_GATEWAY_BREAKER_H_

#include <cstdint>
#include <string_view>

#include "isthmus/base/clock.h"
#include "isthmus/gateway/hold.h"

namespace isthmus::gateway {

class Breaker {
 public:
  static constexpr uint32_t kFailures = 5;  // in a row, that open it

  void OnSent() { trying_ = state_ == State::kHalfOpen; }

  // What was sent before it opened may still end when it is half open: it counts like the try,
  // for it says as much of the island.
  void OnServed() {
    if (state_ == State::kOpen) return;
    state_ = State::kClosed;
    failures_ = 0;
    trying_ = false;
  }
  void OnFailed(MonotonicTime now) {
    if (state_ == State::kOpen) return;
    ++failures_;
    if (state_ == State::kClosed && failures_ < kFailures) return;
    state_ = State::kOpen;
    trying_ = false;
    hold_.Begin(now);
  }
  // A request ended without saying anything: if it was the try, another one may.
  void OnUndecided() { trying_ = false; }

  // Half open when its time is over.
  void Advance(MonotonicTime now) {
    if (state_ == State::kOpen && !hold_.Active(now)) state_ = State::kHalfOpen;
  }

  bool open() const { return state_ == State::kOpen; }
  bool blocked() const { return open() || trying_; }
  uint32_t failures() const { return failures_; }  // in a row
  std::string_view name() const {
    return open() ? "open" : state_ == State::kHalfOpen ? "half-open" : "closed";
  }

 private:
  enum class State : uint8_t { kClosed, kOpen, kHalfOpen };

  State state_ = State::kClosed;
  bool trying_ = false;
  uint32_t failures_ = 0;
  Hold hold_{{milliseconds(1'000), milliseconds(60'000), milliseconds(60'000)}};
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_BREAKER_H_
