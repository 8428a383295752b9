// What goes on beside requests and is nobody's in particular; the end of a relay waits for it.
#ifndef ISTHMUS_RELAY_ERRANDS_H_
#define ISTHMUS_RELAY_ERRANDS_H_

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "isthmus/net/bell.h"

namespace isthmus::relay {

// Used on its loop's thread only.
class Errands {
 public:
  explicit Errands(net::Loop& loop) : loop_(loop) {}

  // Runs `errand` on the loop; a request that began it may end or be cancelled. It tells its
  // failures by other means; one that it throws is dropped.
  void Begin(net::Task<void> errand) {
    ++state_->running;
    net::asio::co_spawn(loop_.get_executor(), std::move(errand),
                        [state = state_](const std::exception_ptr&) {
                          --state->running;
                          state->ended.Ring();
                        });
  }

  size_t running() const { return state_->running; }
  // Ends when none is running.
  net::Task<void> AllEnded() {
    const auto state = state_;
    while (state->running > 0) co_await state->ended.Wait(net::kUntilRung);
  }

 private:
  struct State {
    size_t running = 0;
    net::Bell ended;
  };

  net::Loop& loop_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_ERRANDS_H_
