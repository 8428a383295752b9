// What is counted while a fleet is simulated.
#ifndef ISTHMUS_SIM_TALLY_H_
#define ISTHMUS_SIM_TALLY_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "isthmus/sim/timeline.h"

namespace isthmus::sim {

// How often each lag came, in versions. Those of kMost and more are one.
class LagHistogram {
 public:
  static constexpr uint64_t kMost = 64;

  void Add(uint64_t lag) {
    ++counts_[std::min(lag, kMost)];
    ++count_;
    sum_ += static_cast<double>(lag);
    largest_ = std::max(largest_, lag);
  }
  uint64_t count() const { return count_; }
  uint64_t of(uint64_t lag) const { return counts_[std::min(lag, kMost)]; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  uint64_t largest() const { return largest_; }
  // The smallest lag that so large a part of all do not exceed.
  uint64_t quantile(double part) const;

 private:
  std::array<uint64_t, kMost + 1> counts_{};
  uint64_t count_ = 0;
  double sum_ = 0;
  uint64_t largest_ = 0;
};

// What an island's time is spent with: one of these at each instant.
enum class Spent : uint8_t {
  kBusy,   // requests may come, and tokens are generated
  kIdle,   // requests may come, none is there
  kDrain,  // the gate is closed, and requests must end before the switch
  kPause,  // the engine is paused, loads, and is proven
  kDown,   // killed, or without a version
};
inline constexpr size_t kSpentKinds = 5;
using SpentTimes = std::array<SimTime, kSpentKinds>;

struct RegionTally {
  std::string name;
  uint64_t islands = 0;
  double link_bytes = 0;     // from the origin
  double relay_bytes = 0;    // from the region's relay to its islands
  double planned_bytes = 0;  // of the plans that its islands began to fetch
  SpentTimes spent{};
};

struct Tally {
  SimTime simulated = 0;
  uint64_t islands = 0;
  uint64_t events = 0;
  uint64_t decisions = 0;  // of the router

  uint64_t requests = 0;  // that clients sent, again or for the first time
  uint64_t served = 0;
  uint64_t retried = 0;  // sent to another island, of which the client learns nothing
  uint64_t refused = 0;  // 409 or 503 to the client
  uint64_t failed = 0;   // after all attempts
  uint64_t aborted = 0;  // by a switch
  uint64_t lost = 0;     // with an island that was killed

  uint64_t rollouts = 0;
  uint64_t stale_rollouts = 0;  // too old for the trainer when they ended
  double tokens = 0;            // of served requests
  double wasted_tokens = 0;     // of those that were aborted or lost
  double token_capacity = 0;    // what all engines together could have made

  uint64_t versions = 0;  // published after the first
  double published_bytes = 0;
  double train_wait_s = 0;  // that the trainer waited, for rollouts or for the publisher
  uint64_t switches = 0;
  uint64_t kills = 0;

  LagHistogram lag_start;  // as Isthmus-Lag-Start: at admission, behind what the gateway knows
  LagHistogram lag_end;    // as Isthmus-Lag-End
  LagHistogram
      age;  // when a rollout ends: the board's newest version, less that of its first token

  std::vector<RegionTally> regions;

  SpentTimes spent() const;  // of all regions
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_TALLY_H_
