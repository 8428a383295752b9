// A word from one coroutine to any number of others on the same loop.
#ifndef ISTHMUS_NET_BELL_H_
#define ISTHMUS_NET_BELL_H_

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <memory>
#include <set>

#include "isthmus/net/within.h"

namespace isthmus::net {

// Used on one loop's thread. May be destroyed while somebody waits: it is only never rung then.
class Bell {
 public:
  // Ends at the next Ring or after the limit: who waits for a condition looks again. Throws
  // operation_aborted if the waiting coroutine is cancelled.
  Task<void> Wait(Milliseconds limit) { return WaitIn(waiting_, limit); }

  // Those who wait go on later, through the loop: nothing happens inside the call.
  void Ring() {
    for (SteadyTimer* timer : *waiting_) timer->cancel();
    waiting_->clear();
  }

 private:
  using Waiting = std::set<SteadyTimer*>;

  struct Entry {
    std::shared_ptr<Waiting> waiting;
    SteadyTimer* timer;

    Entry(std::shared_ptr<Waiting> list, SteadyTimer* own) : waiting(std::move(list)), timer(own) {
      waiting->insert(timer);
    }
    ~Entry() { waiting->erase(timer); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
  };

  static Task<void> WaitIn(std::shared_ptr<Waiting> waiting, Milliseconds limit) {
    const auto executor = co_await asio::this_coro::executor;
    SteadyTimer timer(executor, limit);
    const Entry entry(std::move(waiting), &timer);
    boost::system::error_code rung;
    co_await timer.async_wait(asio::redirect_error(kAwait, rung));
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) {
      throw boost::system::system_error(asio::error::operation_aborted);
    }
  }

  std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
};

// For conditions that are sure to come about.
inline constexpr Milliseconds kUntilRung = std::chrono::hours(24);

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_BELL_H_
