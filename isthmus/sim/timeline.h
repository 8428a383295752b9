// The fake clock and what is still to happen on it. Pure; not thread-safe.
#ifndef ISTHMUS_SIM_TIMELINE_H_
#define ISTHMUS_SIM_TIMELINE_H_

#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

#include "isthmus/base/clock.h"

namespace isthmus::sim {

// Nanoseconds since the simulation's beginning.
using SimTime = int64_t;
inline constexpr SimTime kNever = std::numeric_limits<SimTime>::max();
inline constexpr double kSecond = 1e9;
// Longer than any simulation, and sums of a few of them fit.
inline constexpr SimTime kLongTime = SimTime{1} << 60;

// Rounded up, so that what takes time never takes none. Of what takes too long: kLongTime.
SimTime FromSeconds(double seconds);
inline double ToSeconds(SimTime time) { return static_cast<double>(time) / kSecond; }
// As the gate takes it.
inline MonotonicTime AsMonotonic(SimTime time) {
  return MonotonicTime(std::chrono::nanoseconds(time));
}

enum class EventKind : uint8_t {
  kArrive,     // a request (a) is at its island
  kAnswer,     // an island's answer to a request (a) is at the gateway
  kSubmit,     // a client sends a request (a), again or for its next turn
  kWaitOver,   // a request (a) has waited long enough at the gateway, for the b-th time
  kReport,     // the oldest of an island's (a) reports is at the gateway
  kEngine,     // the next request of an island's (a) engine ends
  kGateTimer,  // an island's (a) gate has something to do
  kLearn,      // an island (a, of incarnation b) reads the log
  kFetched,    // an island (a, of incarnation b) has all payloads
  kApplied,    // … has applied and verified them
  kPaused,     // … its engine is paused
  kLoaded,     // … its engine has the new version, and generates
  kProven,     // … its canary has ended
  kNotice,     // … will be killed
  kKill,       // … is killed
  kBoot,       // an island (a) is there anew
  kLink,       // the next transfer of a link (a) ends
  kTrained,    // the trainer has finished a step
  kPublished,  // the publisher has finished: the board has a further version
};

struct Event {
  SimTime at = 0;
  uint64_t order = 0;  // events of one instant come in the order in which they were added
  EventKind kind = EventKind::kArrive;
  uint32_t a = 0;
  uint32_t b = 0;
};

// A heap of four children a node: half the levels of two, and the children share a cache line or
// two.
class Timeline {
 public:
  SimTime now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  SimTime next() const { return heap_.empty() ? kNever : heap_.front().at; }

  // Not before now. O(log n).
  void Add(SimTime at, EventKind kind, uint32_t a = 0, uint32_t b = 0);
  void AddAfter(SimTime delay, EventKind kind, uint32_t a = 0, uint32_t b = 0) {
    Add(now_ + delay, kind, a, b);
  }
  // Removes the first event, and it is that time. There must be one.
  Event Pop();
  // Nothing happens up to then.
  void AdvanceTo(SimTime at) { now_ = at; }

 private:
  static bool Before(const Event& a, const Event& b) {
    return a.at != b.at ? a.at < b.at : a.order < b.order;
  }

  SimTime now_ = 0;
  uint64_t added_ = 0;
  std::vector<Event> heap_;
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_TIMELINE_H_
