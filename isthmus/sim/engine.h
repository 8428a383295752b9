// An engine: requests in slots, which share its token rate, and a queue in front of them. Pure.
#ifndef ISTHMUS_SIM_ENGINE_H_
#define ISTHMUS_SIM_ENGINE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "isthmus/sim/scenario.h"
#include "isthmus/sim/sharing.h"

namespace isthmus::sim {

class Engine {
 public:
  explicit Engine(const EngineFacts& facts) : facts_(&facts) {}

  void Add(uint32_t request, double tokens, SimTime now);
  // False if it is not here. Adds what it has got to wasted_tokens.
  bool Remove(uint32_t request, SimTime now);
  // Everything, as Remove.
  void Clear(SimTime now);
  // No token between the two.
  void Pause(SimTime now);
  void Resume(SimTime now);

  SimTime FirstEnd() const { return running_.FirstEnd(); }
  // One that has all of its tokens by now; nullopt if there is none.
  std::optional<uint32_t> PopEnded(SimTime now);

  bool generates() const { return !paused_ && running_.size() > 0; }
  size_t size() const { return running_.size() + queue_.size(); }
  double wasted_tokens() const { return wasted_tokens_; }

 private:
  struct Queued {
    uint32_t request = 0;
    double tokens = 0;
  };
  // Fills free slots, and sets the rate.
  void Share(SimTime now);

  const EngineFacts* facts_;
  Sharing running_;
  std::deque<Queued> queue_;
  bool paused_ = false;
  double wasted_tokens_ = 0;
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_ENGINE_H_
