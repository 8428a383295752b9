// The time that a request gives: when it is over, what its handler awaits is cancelled.
#ifndef ISTHMUS_SIDECAR_TIME_LIMIT_H_
#define ISTHMUS_SIDECAR_TIME_LIMIT_H_

#include <memory>
#include <optional>

#include "isthmus/base/clock.h"
#include "isthmus/net/exchange.h"
#include "isthmus/net/within.h"

namespace isthmus::sidecar {

// Of one exchange, which must outlive it. Costs nothing until it is armed.
class TimeLimit {
 public:
  explicit TimeLimit(net::Exchange& exchange) : exchange_(exchange) {}
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  // From `at` on the handler is cancelled (Exchange::CancelHandler), unless it was disarmed.
  void Arm(const net::Executor& executor, MonotonicTime at) {
    timer_.emplace(executor, at);
    armed_ = std::make_shared<TimeLimit*>(this);
    // A timer that is cancelled too late calls all the same.
    timer_->async_wait([armed = std::weak_ptr(armed_)](const boost::system::error_code& error) {
      const auto self = armed.lock();
      if (!error && self) (*self)->Expire();
    });
  }
  void Disarm() {
    armed_.reset();
    timer_.reset();
  }
  bool expired() const { return expired_; }

 private:
  void Expire() {
    expired_ = true;
    exchange_.CancelHandler();  // last: it may end the handler, and this with it
  }

  net::Exchange& exchange_;
  std::optional<net::SteadyTimer> timer_;
  std::shared_ptr<TimeLimit*> armed_;
  bool expired_ = false;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_TIME_LIMIT_H_
