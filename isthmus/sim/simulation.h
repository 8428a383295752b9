// A fleet on a fake clock: what docs/simulate.md describes. Pure; not thread-safe.
#ifndef ISTHMUS_SIM_SIMULATION_H_
#define ISTHMUS_SIM_SIMULATION_H_

#include <deque>
#include <functional>

#include "isthmus/sim/gateway.h"
#include "isthmus/sim/island.h"
#include "isthmus/sim/scenario.h"
#include "isthmus/sim/trainer.h"
#include "isthmus/sim/world.h"

namespace isthmus::sim {

class Simulation {
 public:
  // The same scenario gives the same tally. The scenario must outlive it.
  explicit Simulation(const Scenario& scenario);

  // Up to the scenario's end, once. `watch`, if any, is called after each event.
  const Tally& Run(const std::function<void(const Event&)>& watch = nullptr);

  const World& world() const { return world_; }
  const Gateway& gateway() const { return gateway_; }
  const std::deque<Island>& islands() const { return islands_; }

 private:
  bool Dispatch(const Event& event);
  bool DispatchToIsland(const Event& event);
  void Settle();

  World world_;
  Gateway gateway_;
  Trainer trainer_;
  std::deque<Island> islands_;
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_SIMULATION_H_
