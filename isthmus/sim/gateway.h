// The gateway of the simulated fleet: the real router (gateway/router.h) on a snapshot that is kept
// up to date by the islands' reports, and what the gateway does with its choices.
#ifndef ISTHMUS_SIM_GATEWAY_H_
#define ISTHMUS_SIM_GATEWAY_H_

#include <deque>
#include <map>

#include "isthmus/gateway/router.h"
#include "isthmus/sim/world.h"

namespace isthmus::sim {

class Gateway {
 public:
  // `region_of[i]` is the region of the island in place i. The world must outlive it.
  Gateway(World& world, std::vector<uint32_t> region_of);

  // A client's request: for the first time, again after a refusal, or for the next turn.
  void Submit(uint32_t id);
  void OnReport(uint32_t island, const Report& report);
  // True if the answer is passed on to the client: its request was served. Else the gateway goes on
  // with it by itself.
  bool OnAnswer(uint32_t id);
  // False if it does not wait any more.
  bool OnWaitOver(uint32_t id, uint32_t waits);

  const gateway::Snapshot& snapshot() const { return snapshot_; }
  // Served requests whose version does not satisfy what they asked: none, if all is right.
  uint64_t unsatisfied() const { return unsatisfied_; }

 private:
  struct Waiting {
    uint32_t rollout = 0;
    uint32_t waits = 0;
  };
  // Rollouts whose requests ask the same, in order of arrival: what holds for the first one holds
  // for all.
  struct Line {
    std::deque<Waiting> waiting;
    bool for_room = false;  // or for a version
  };

  using Lines = std::map<VersionNumber, Line>;  // by min_version

  gateway::Choice Ask(uint32_t id);
  void Choose(uint32_t id);
  // False if it must wait.
  bool Act(uint32_t id, const gateway::Choice& choice);
  void Send(uint32_t id, const gateway::Choice& choice);
  void Wait(uint32_t id, bool for_room);
  void Refuse(uint32_t id);
  void Retry(uint32_t id);
  void DropGone(Line* line) const;
  void GoOn();
  void GiveRoom();
  Lines::iterator Keep(Lines::iterator at, bool for_room);

  World& world_;
  std::vector<SimTime> latency_;  // to each island
  gateway::Snapshot snapshot_;
  std::vector<uint32_t> incarnations_;
  Lines lines_;
  int lines_for_room_ = 0;
  uint64_t unsatisfied_ = 0;
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_GATEWAY_H_
