// What all parts of a simulated fleet share.
#ifndef ISTHMUS_SIM_WORLD_H_
#define ISTHMUS_SIM_WORLD_H_

#include <cstdint>
#include <vector>

#include "isthmus/gateway/snapshot.h"
#include "isthmus/lane/request.h"
#include "isthmus/sim/draws.h"
#include "isthmus/sim/network.h"
#include "isthmus/sim/payloads.h"
#include "isthmus/sim/scenario.h"
#include "isthmus/sim/tally.h"
#include "isthmus/sim/timeline.h"

namespace isthmus::sim {

// How a request ended at an island.
enum class Answer : uint8_t { kServed, kNotReady, kUnavailable, kAborted, kLost };

inline constexpr size_t kMaxAttempts = 16;

// A rollout of a client, of which one request at a time is under way: its present turn.
struct Rollout {
  double tokens = 0;  // of this turn
  SimTime wait_until = 0;
  VersionNumber min_version = kNoVersion;
  VersionNumber start = kNoVersion;   // what this turn was admitted at
  VersionNumber end = kNoVersion;     // what it ended at
  VersionNumber oldest = kNoVersion;  // of all turns
  uint64_t session = 0;               // a number of its own
  uint64_t gate_id = 0;
  uint64_t turns_left = 1;  // with this one
  uint32_t island = 0;
  uint32_t incarnation = 0;  // of the island, as far as the gateway knew when it sent
  uint32_t place = 0;        // among its island's requests
  uint32_t waits = 0;        // grows when it begins to wait at the gateway, and when it ends to
  uint32_t tried[kMaxAttempts] = {};
  uint8_t attempts = 0;  // that have failed
  bool alternatives = false;
  Answer answer = Answer::kServed;
};

class Rollouts {
 public:
  uint32_t Take() {
    if (free_.empty()) {
      all_.emplace_back();
      return static_cast<uint32_t>(all_.size() - 1);
    }
    const uint32_t id = free_.back();
    free_.pop_back();
    all_[id] = {};
    return id;
  }
  void Free(uint32_t id) { free_.push_back(id); }
  Rollout& operator[](uint32_t id) { return all_[id]; }
  const Rollout& operator[](uint32_t id) const { return all_[id]; }
  size_t size() const { return all_.size() - free_.size(); }

 private:
  std::vector<Rollout> all_;
  std::vector<uint32_t> free_;
};

// What an island tells the gateway of itself.
struct Report {
  gateway::IslandState state = gateway::IslandState::kGone;
  VersionNumber served = kNoVersion;
  VersionNumber target = kNoVersion;
  VersionNumber head = kNoVersion;
  uint32_t incarnation = 0;

  bool operator==(const Report&) const = default;
};

struct World {
  explicit World(const Scenario& of)
      : scenario(of), payloads(of), network(of, payloads, timeline), draws(of.seed) {}

  const Scenario& scenario;
  Timeline timeline;
  Payloads payloads;
  Network network;
  Rollouts rollouts;
  Draws draws;
  Tally tally;
  VersionNumber newest_known = kNoVersion;  // to the gateway

  // What every request asks of versions.
  lane::Constraint ConstraintOf(const Rollout& rollout) const {
    lane::Constraint constraint;
    if (rollout.min_version != kNoVersion) constraint.min_version = rollout.min_version;
    const TrainerFacts& trainer = scenario.trainer;
    if (scenario.policy.max_lag >= 0) {
      constraint.max_lag_versions = static_cast<uint64_t>(scenario.policy.max_lag);
    } else if (trainer.mode == TrainerMode::kAsynchronous) {
      constraint.max_lag_versions = trainer.max_lag;
    }
    return constraint;
  }
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_WORLD_H_
