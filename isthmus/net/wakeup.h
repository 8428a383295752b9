// A word from one coroutine or callback to another on the same loop.
#ifndef ISTHMUS_NET_WAKEUP_H_
#define ISTHMUS_NET_WAKEUP_H_

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <optional>
#include <utility>

#include "isthmus/net/task.h"

namespace isthmus::net {

// At most one coroutine waits at a time. Fire resumes it at once, inside the call: whoever fires
// must not use what that coroutine may destroy. Without a waiter Fire does nothing: the waiter
// checks its condition first.
class Wakeup {
 public:
  Wakeup() = default;
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  bool awaited() const { return waiter_.has_value(); }

  void Fire() {
    if (waiter_) std::exchange(waiter_, std::nullopt).value()(boost::system::error_code{});
  }

  // Destroys the waiting coroutine: when the loop ends before what it waits for.
  void Drop() { std::exchange(waiter_, std::nullopt).reset(); }

  // Throws operation_aborted if the waiting coroutine is cancelled. The wakeup must outlive it.
  Task<void> Wait() {
    return asio::async_initiate<const asio::use_awaitable_t<Executor>,
                                void(boost::system::error_code)>(
        [this](Waiter waiter) {
          auto slot = asio::get_associated_cancellation_slot(waiter);
          waiter_.emplace(std::move(waiter));
          if (slot.is_connected()) slot.assign([this](asio::cancellation_type) { Abort(); });
        },
        kAwait);
  }

 private:
  using Waiter = asio::async_result<asio::use_awaitable_t<Executor>,
                                    void(boost::system::error_code)>::handler_type;

  // Through the loop: the one who cancels does not expect to be overtaken by what it cancels.
  void Abort() {
    if (!waiter_) return;
    auto executor = asio::get_associated_executor(*waiter_);
    asio::post(executor, [waiter = std::exchange(waiter_, std::nullopt).value()]() mutable {
      std::move(waiter)(make_error_code(asio::error::operation_aborted));
    });
  }

  std::optional<Waiter> waiter_;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_WAKEUP_H_
