#include "isthmus/net/process_signals.h"

#include <csignal>
#include <utility>

namespace isthmus::net {

struct ProcessSignals::State {
  State(Loop& loop, std::function<void()> on_terminate, std::function<void()> on_hang_up)
      : signals(loop.get_executor(), SIGTERM, SIGINT, SIGHUP),
        terminate(std::move(on_terminate)),
        hang_up(std::move(on_hang_up)) {}

  asio::basic_signal_set<Executor> signals;
  std::function<void()> terminate;
  std::function<void()> hang_up;
  bool ended = false;
};

ProcessSignals::ProcessSignals(Loop& loop, std::function<void()> terminate,
                               std::function<void()> hang_up)
    : state_(std::make_shared<State>(loop, std::move(terminate), std::move(hang_up))) {
  Wait(state_);
}

ProcessSignals::~ProcessSignals() {
  state_->ended = true;
  boost::system::error_code ignored;
  state_->signals.cancel(ignored);
}

void ProcessSignals::Wait(std::shared_ptr<State> state) {
  auto& signals = state->signals;
  signals.async_wait([state = std::move(state)](boost::system::error_code error, int signal) {
    if (error || state->ended) return;
    (signal == SIGHUP ? state->hang_up : state->terminate)();
    Wait(state);
  });
}

}  // namespace isthmus::net
