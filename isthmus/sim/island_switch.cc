// How a simulated island follows the board: as Reconciler::Follow and Switch, with events in place
// of awaits.
#include "isthmus/base/error.h"
#include "isthmus/sidecar/goal.h"
#include "isthmus/sim/island.h"

namespace isthmus::sim {
namespace {

using sidecar::GateState;

// As the reconciler's: how often a stage is followed by another one.
constexpr int kMaxStageRounds = 3;

}  // namespace

void Island::Announce() {
  if (!alive_) return;
  const SimTime poll = FromSeconds(world_.scenario.policy.poll_s);
  const SimTime since = world_.timeline.now() - read_at_;
  const SimTime reading = read_at_ + (since + poll - 1) / poll * poll;
  world_.timeline.Add(reading + 2 * latency_, EventKind::kLearn, place_, incarnation_);
}

// While it stages or commits it does not read; it does so when that ends.
bool Island::OnLearn(uint32_t incarnation) {
  if (!Current(incarnation) || gate_->state() != GateState::kReady || staging_) return false;
  if (head_ == world_.payloads.head()) return false;
  ReadLog();
  Follow();
  return true;
}

void Island::ReadLog() {
  if (world_.timeline.now() > 0) read_at_ = world_.timeline.now();  // the first phase is random
  head_ = world_.payloads.head();
  CarryOut(gate_->Learn(head_, now()));
}

VersionNumber Island::Goal() const {
  return sidecar::ChooseGoal(
      {.head = head_, .served = gate_->served(), .wanted_exactly = gate_->WantedExactly()}, {}, {});
}

void Island::Follow() {
  const VersionNumber goal = Goal();
  if (goal != kNoVersion && goal != gate_->served()) {
    rounds_ = 0;
    return Stage(goal);
  }
  target_ = kNoVersion;
  Tell();
}

void Island::Stage(VersionNumber goal) {
  staging_ = true;
  target_ = goal;
  Tell();
  const replica::Plan& plan = world_.payloads.PlanFor(held_, goal);
  world_.tally.regions[region_].planned_bytes += static_cast<double>(plan.fetch_bytes);
  fetch_ = world_.network.Start(region_, plan, place_, incarnation_);
}

// One pass over the checkpoint, however long the chain is.
bool Island::OnFetched(uint32_t incarnation) {
  if (!Current(incarnation)) return false;
  fetch_ = kNoFetch;
  const ModelFacts& model = world_.scenario.model;
  world_.timeline.AddAfter(FromSeconds(model.checkpoint_bytes / model.apply_bytes_per_s),
                           EventKind::kApplied, place_, incarnation_);
  return true;
}

bool Island::OnApplied(uint32_t incarnation) {
  if (!Current(incarnation)) return false;
  held_ = target_;
  if (gate_->state() == GateState::kBooting) {
    world_.timeline.AddAfter(FromSeconds(facts_.engine.load_s), EventKind::kLoaded, place_,
                             incarnation_);
    return true;
  }
  ReadLog();
  const VersionNumber goal = Goal();
  if (++rounds_ < kMaxStageRounds && goal != target_ && goal != kNoVersion) {
    Stage(goal);
  } else {
    Close();
  }
  return true;
}

void Island::Close() {
  staging_ = false;
  gate_->Prepare(target_, now());  // no session holds a version: none is pinned
  CarryOut(gate_->Close(world_.scenario.policy.drain, target_, now()));
  Note();
  Tell();
  ArmGate();
  PauseIfDrained();
}

void Island::PauseIfDrained() {
  if (pausing_ || gate_->state() != GateState::kClosing || gate_->leaving() > 0) return;
  pausing_ = true;
  engine_.Pause(world_.timeline.now());
  Note();
  world_.timeline.AddAfter(FromSeconds(facts_.engine.pause_s), EventKind::kPaused, place_,
                           incarnation_);
}

bool Island::OnPaused(uint32_t incarnation) {
  if (!Current(incarnation)) return false;
  gate_->BeginCommit(now());
  world_.timeline.AddAfter(FromSeconds(facts_.engine.load_s), EventKind::kLoaded, place_,
                           incarnation_);
  return true;
}

bool Island::OnLoaded(uint32_t incarnation) {
  if (!Current(incarnation)) return false;
  if (gate_->state() == GateState::kCommitting) {
    ++world_.tally.switches;
    gate_->Resume(now());
    engine_.Resume(world_.timeline.now());
    ArmEngine();
  }
  world_.timeline.AddAfter(FromSeconds(facts_.engine.canary_s), EventKind::kProven, place_,
                           incarnation_);
  return true;
}

bool Island::OnProven(uint32_t incarnation) {
  if (!Current(incarnation)) return false;
  Opened(gate_->Open(held_, now()));
  return true;
}

void Island::Opened(const sidecar::Gate::Decisions& decisions) {
  pausing_ = staging_ = false;
  Note();
  CarryOut(decisions);
  ArmEngine();
  ReadLog();  // there may be more versions by now
  Follow();
}

bool Island::OnNotice(uint32_t incarnation) {
  if (!Current(incarnation)) return false;
  leaving_ = true;
  Tell();
  return true;
}

bool Island::OnKill(uint32_t incarnation) {
  if (!Current(incarnation)) return false;
  ++world_.tally.kills;
  world_.network.Cancel(fetch_, place_, incarnation_);
  fetch_ = kNoFetch;
  engine_.Clear(world_.timeline.now());
  engine_.Resume(world_.timeline.now());
  while (!here_.empty()) Reply(here_.back(), Answer::kLost);
  alive_ = leaving_ = staging_ = pausing_ = false;
  held_ = target_ = head_ = kNoVersion;
  ++incarnation_;
  Note();
  Tell();
  world_.timeline.AddAfter(FromSeconds(facts_.spot.boot_s), EventKind::kBoot, place_);
  return true;
}

void Island::OnBoot() {
  Begin();
  ReadLog();
  target_ = Goal();
  Note();
  Stage(target_);
}

}  // namespace isthmus::sim
