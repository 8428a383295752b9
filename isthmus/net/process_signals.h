// What the operating system tells a serving process.
#ifndef ISTHMUS_NET_PROCESS_SIGNALS_H_
#define ISTHMUS_NET_PROCESS_SIGNALS_H_

#include <boost/asio/basic_signal_set.hpp>
#include <functional>
#include <memory>

#include "isthmus/net/task.h"

namespace isthmus::net {

// Calls `terminate` for SIGTERM and SIGINT (drain, then end) and `hang_up` for SIGHUP (read
// certificates and tokens again), on the loop, each time one comes, until it is destroyed.
// Callbacks must not throw. One at a time in a process.
class ProcessSignals {
 public:
  ProcessSignals(Loop& loop, std::function<void()> terminate, std::function<void()> hang_up);
  ~ProcessSignals();
  ProcessSignals(const ProcessSignals&) = delete;
  ProcessSignals& operator=(const ProcessSignals&) = delete;

 private:
  struct State;
  static void Wait(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_PROCESS_SIGNALS_H_
