// The trainer and its publisher: which rollouts are asked for, when a step begins, when its version
// is on the board. docs/simulate.md, "Trainers".
#ifndef ISTHMUS_SIM_TRAINER_H_
#define ISTHMUS_SIM_TRAINER_H_

#include "isthmus/sim/gateway.h"
#include "isthmus/sim/world.h"

namespace isthmus::sim {

class Trainer {
 public:
  // Both must outlive it.
  Trainer(World& world, Gateway& gateway) : world_(world), gateway_(gateway) {}

  void Start();
  // A rollout's request was served.
  void OnServed(uint32_t id);
  void OnTrained();
  // The board has a further version from here on.
  void OnPublished();
  // The simulation is over.
  void Settle();

 private:
  bool InBatches() const {
    return mode() == TrainerMode::kSynchronous || mode() == TrainerMode::kOneStepOff;
  }
  TrainerMode mode() const { return world_.scenario.trainer.mode; }
  uint64_t batch() const { return world_.scenario.trainer.batch; }

  double DrawTokens();
  bool MayBegin() const;
  void Fill();
  void BeginRollout();
  void EndRollout(uint32_t id);
  void BeginBatch();
  void TrainIfReady();
  void Publish();
  void Idle(bool idle);

  World& world_;
  Gateway& gateway_;
  uint64_t sessions_ = 0;
  uint64_t active_ = 0;    // rollouts under way
  uint64_t begun_ = 0;     // in batches: of the present batch; asynchronous: that may be trained on
  uint64_t ended_ = 0;     // in batches: of the present batch
  uint64_t batches_ = 0;   // begun
  uint64_t buffered_ = 0;  // ended rollouts that no step has used
  bool training_ = false;  // or waiting to publish
  bool blocked_ = false;   // a step has ended and the publisher is not ready for it
  bool publishing_ = false;
  SimTime idle_since_ = kNever;  // kNever: it is not idle
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_TRAINER_H_
