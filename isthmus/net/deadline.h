// Time limits for many connections at the price of one timer.
#ifndef ISTHMUS_NET_DEADLINE_H_
#define ISTHMUS_NET_DEADLINE_H_

#include <boost/asio/basic_waitable_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "isthmus/net/task.h"

namespace isthmus::net {

using Milliseconds = std::chrono::milliseconds;

class Deadline;

// All armed deadlines of a server or client. A timer in each operation would cost a system call or
// two in each; here arming is a few stores, and one timer looks at all of them every `tick`. So a
// deadline expires up to one tick late. The timer runs only while something is armed.
class DeadlineList : public std::enable_shared_from_this<DeadlineList> {
 public:
  using SteadyClock = std::chrono::steady_clock;

  DeadlineList(Loop& loop, Milliseconds tick) : timer_(loop.get_executor()), tick_(tick) {}
  ~DeadlineList();
  DeadlineList(const DeadlineList&) = delete;
  DeadlineList& operator=(const DeadlineList&) = delete;

  // Fine enough for the shortest of the limits: an eighth of it, from 5 ms to a second.
  static Milliseconds TickFor(Milliseconds shortest);

 private:
  friend class Deadline;
  void Schedule();
  void Sweep();

  asio::basic_waitable_timer<SteadyClock, asio::wait_traits<SteadyClock>, Executor> timer_;
  Milliseconds tick_;
  Deadline* first_ = nullptr;
  Deadline* next_swept_ = nullptr;  // moved on when the deadline that it points to goes
  bool scheduled_ = false;
};

// One limit at a time. `expired` is called on the loop, once for each arming, after which the
// deadline is disarmed; it may destroy this deadline and any other.
class Deadline {
 public:
  Deadline(std::shared_ptr<DeadlineList> list, std::function<void()> expired)
      : list_(std::move(list)), expired_(std::move(expired)) {}
  ~Deadline() { Disarm(); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  // Replaces an earlier arming. Zero means no limit: disarms.
  void Arm(Milliseconds from_now);
  void Disarm();

 private:
  friend class DeadlineList;
  std::shared_ptr<DeadlineList> list_;
  std::function<void()> expired_;
  DeadlineList::SteadyClock::time_point at_;
  bool armed_ = false;
  Deadline* previous_ = nullptr;
  Deadline* next_ = nullptr;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_DEADLINE_H_
