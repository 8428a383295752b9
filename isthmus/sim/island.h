// An island of the simulated fleet: the real gate, driven as a sidecar drives it (reconciler.h),
// in front of a modelled engine.
#ifndef ISTHMUS_SIM_ISLAND_H_
#define ISTHMUS_SIM_ISLAND_H_

#include <deque>
#include <memory>
#include <vector>

#include "isthmus/sidecar/gate.h"
#include "isthmus/sim/engine.h"
#include "isthmus/sim/world.h"

namespace isthmus::sim {

class Island {
 public:
  // Serves version 1, which its engine was started with. The world must outlive it; `place` is its
  // own in the gateway's snapshot.
  Island(World& world, uint32_t place, uint32_t region);

  // The events. False if it was meant for an earlier island in this place, or is an old one, and
  // nothing happened.
  void OnArrive(uint32_t id);
  bool OnEngine();
  bool OnGateTimer();
  bool OnLearn(uint32_t incarnation);
  bool OnFetched(uint32_t incarnation);
  bool OnApplied(uint32_t incarnation);
  bool OnPaused(uint32_t incarnation);
  bool OnLoaded(uint32_t incarnation);
  bool OnProven(uint32_t incarnation);
  bool OnNotice(uint32_t incarnation);
  bool OnKill(uint32_t incarnation);
  void OnBoot();

  // A version was published: it reads the log when its next reading is due.
  void Announce();
  // The simulation is over.
  void Settle();

  uint32_t region() const { return region_; }
  // The oldest of the reports that are on their way to the gateway; removes it.
  Report TakeReport();
  const Report& told() const { return told_; }  // the newest of them
  const sidecar::Gate& gate() const { return *gate_; }
  bool alive() const { return alive_; }

 private:
  bool Current(uint32_t incarnation) const { return alive_ && incarnation == incarnation_; }
  MonotonicTime now() const { return AsMonotonic(world_.timeline.now()); }
  void Begin();
  void Admit(uint32_t id, VersionNumber version);
  void Reply(uint32_t id, Answer answer);
  void CarryOut(const sidecar::Gate::Decisions& decisions);
  void ReadLog();
  VersionNumber Goal() const;
  void Follow();
  void Stage(VersionNumber goal);
  void Close();
  void PauseIfDrained();
  void Opened(const sidecar::Gate::Decisions& decisions);
  Spent Now() const;
  void Note();
  void Tell();
  void ArmEngine();
  void ArmGate();

  World& world_;
  const RegionFacts& facts_;
  const uint32_t place_;
  const uint32_t region_;
  const SimTime latency_;
  SimTime read_at_;  // when it last read the log, however old that reading is

  std::unique_ptr<sidecar::Gate> gate_;
  Engine engine_;
  uint32_t incarnation_ = 0;
  bool alive_ = true;
  bool leaving_ = false;  // it will be killed, and has said so
  bool staging_ = false;
  bool pausing_ = false;
  int rounds_ = 0;  // of staging, before this switch
  VersionNumber held_ = kNoVersion;
  VersionNumber target_ = kNoVersion;
  VersionNumber head_ = kNoVersion;
  FetchId fetch_ = kNoFetch;
  std::vector<uint32_t> here_;  // rollouts that wait at the gate or are in flight
  std::deque<Report> reports_;  // on their way
  Report told_;

  SimTime engine_armed_ = kNever;
  SimTime gate_armed_ = kNever;
  Spent spent_ = Spent::kDown;
  SimTime since_ = 0;
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_ISLAND_H_
