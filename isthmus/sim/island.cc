#include "isthmus/sim/island.h"

#include <unordered_map>

#include "isthmus/base/error.h"

namespace isthmus::sim {
namespace {

using sidecar::GateState;
using sidecar::Outcome;

std::unique_ptr<sidecar::Gate> NewGate(const PolicyFacts& policy) {
  sidecar::GateOptions options;
  options.run = "run";
  options.drain_limit =
      std::chrono::milliseconds(static_cast<int64_t>(policy.drain_limit_s * 1000));
  return std::make_unique<sidecar::Gate>(std::move(options));
}

}  // namespace

Island::Island(World& world, uint32_t place, uint32_t region)
    : world_(world),
      facts_(world.scenario.regions[region]),
      place_(place),
      region_(region),
      latency_(FromSeconds(facts_.latency_s)),
      read_at_(-FromSeconds(world.scenario.policy.poll_s * world.draws.Unit())),
      engine_(facts_.engine) {
  Begin();
  held_ = head_ = world.payloads.head();
  gate_->Learn(head_, now());
  Opened(gate_->Open(held_, now()));
}

// A new machine, or the first one.
void Island::Begin() {
  gate_ = NewGate(world_.scenario.policy);
  alive_ = true;
  const SpotFacts& spot = facts_.spot;
  if (spot.kills_per_island_hour == 0) return;
  const double life_s = world_.draws.Exponential(3'600 / spot.kills_per_island_hour);
  world_.timeline.AddAfter(FromSeconds(life_s), EventKind::kKill, place_, incarnation_);
  if (spot.notice_s == 0) return;
  const double notice_s = std::max(0.0, life_s - spot.notice_s);
  world_.timeline.AddAfter(FromSeconds(notice_s), EventKind::kNotice, place_, incarnation_);
}

// REQUESTS

void Island::OnArrive(uint32_t id) {
  Rollout& rollout = world_.rollouts[id];
  if (!Current(rollout.incarnation)) return Reply(id, Answer::kLost);
  lane::Request request;
  request.constraint = world_.ConstraintOf(rollout);
  const SimTime left = std::max(SimTime{0}, rollout.wait_until - world_.timeline.now());
  // The gateway's rule: an island is not waited at while others can be asked (docs/gateway.md).
  if (rollout.alternatives) {
    request.wait_ms = std::chrono::milliseconds(0);
  } else if (left > 0) {
    request.wait_ms = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(left));
  }
  const lane::Decision decision = gate_->Arrive(request, now());
  rollout.gate_id = decision.request;
  rollout.place = static_cast<uint32_t>(here_.size());
  here_.push_back(id);
  if (decision.outcome == Outcome::kAdmitted) return Admit(id, decision.version);
  if (decision.outcome == Outcome::kWaiting) return ArmGate();
  Reply(id, decision.outcome == Outcome::kNotReady ? Answer::kNotReady : Answer::kUnavailable);
}

void Island::Admit(uint32_t id, VersionNumber version) {
  Rollout& rollout = world_.rollouts[id];
  rollout.start = version;
  if (rollout.oldest == kNoVersion) rollout.oldest = version;
  world_.tally.lag_start.Add(world_.newest_known - std::min(version, world_.newest_known));
  engine_.Add(id, rollout.tokens, world_.timeline.now());
  Note();
  ArmEngine();
}

// It is not here any more; the answer is on its way.
void Island::Reply(uint32_t id, Answer answer) {
  Rollout& rollout = world_.rollouts[id];
  rollout.answer = answer;
  if (rollout.place < here_.size() && here_[rollout.place] == id) {
    here_[rollout.place] = here_.back();
    world_.rollouts[here_.back()].place = rollout.place;
    here_.pop_back();
  }
  world_.timeline.AddAfter(latency_, EventKind::kAnswer, id);
}

bool Island::OnEngine() {
  if (engine_armed_ != world_.timeline.now()) return false;
  engine_armed_ = kNever;
  bool ended = false;
  while (const auto id = engine_.PopEnded(world_.timeline.now())) {
    Rollout& rollout = world_.rollouts[*id];
    rollout.end = gate_->Finish(rollout.gate_id, now()).end;
    Reply(*id, Answer::kServed);
    ended = true;
  }
  PauseIfDrained();
  Note();
  ArmEngine();
  return ended;
}

void Island::CarryOut(const sidecar::Gate::Decisions& decisions) {
  if (decisions.empty()) return;
  std::unordered_map<uint64_t, uint32_t> by_gate_id;
  for (const uint32_t id : here_) by_gate_id.emplace(world_.rollouts[id].gate_id, id);
  for (const lane::Decision& decision : decisions) {
    const uint32_t id = by_gate_id.at(decision.request);
    if (decision.outcome == Outcome::kAdmitted) {
      Admit(id, decision.version);
    } else if (decision.outcome == Outcome::kAborted) {
      engine_.Remove(id, world_.timeline.now());
      gate_->Finish(decision.request, now());
      Reply(id, Answer::kAborted);
    } else {
      Reply(id, decision.outcome == Outcome::kNotReady ? Answer::kNotReady : Answer::kUnavailable);
    }
  }
  ArmEngine();
}

bool Island::OnGateTimer() {
  if (gate_armed_ != world_.timeline.now()) return false;
  gate_armed_ = kNever;
  if (!alive_) return false;
  const auto decisions = gate_->Advance(now());
  CarryOut(decisions);
  PauseIfDrained();
  ArmGate();
  return !decisions.empty();
}

// TIME

Spent Island::Now() const {
  if (!alive_) return Spent::kDown;
  switch (gate_->state()) {
    case GateState::kReady:
      return engine_.generates() ? Spent::kBusy : Spent::kIdle;
    case GateState::kClosing:
      return pausing_ ? Spent::kPause : Spent::kDrain;
    case GateState::kCommitting:
      return Spent::kPause;
    case GateState::kBooting:
    case GateState::kPoisoned:
    case GateState::kStopped:
      break;
  }
  return Spent::kDown;
}

// What its time is spent with may have changed.
void Island::Note() {
  const SimTime at = world_.timeline.now();
  world_.tally.regions[region_].spent[static_cast<size_t>(spent_)] += at - since_;
  since_ = at;
  spent_ = Now();
}

void Island::Settle() {
  Note();
  world_.tally.wasted_tokens += engine_.wasted_tokens();
}

void Island::ArmEngine() {
  const SimTime end = engine_.FirstEnd();
  if (end >= engine_armed_) return;
  engine_armed_ = end;
  world_.timeline.Add(end, EventKind::kEngine, place_);
}

void Island::ArmGate() {
  const auto deadline = gate_->next_deadline();
  if (!deadline) return;
  const SimTime at = std::chrono::nanoseconds(deadline->time_since_epoch()).count();
  if (at >= gate_armed_) return;
  gate_armed_ = at;
  world_.timeline.Add(at, EventKind::kGateTimer, place_);
}

// The gateway hears of what has changed. In the real fleet a heartbeat says so at once.
void Island::Tell() {
  Report report;
  report.incarnation = incarnation_;
  report.head = head_;
  report.target = target_;
  if (alive_) {
    report.served = gate_->served();
    report.state = gateway::IslandState::kSuspect;
    if (gate_->state() == GateState::kReady) {
      report.state = staging_ ? gateway::IslandState::kStaging : gateway::IslandState::kReady;
    } else if (gate_->state() != GateState::kBooting) {
      report.state = gateway::IslandState::kCommitting;
    }
    if (leaving_) report.state = gateway::IslandState::kDraining;
  }
  if (report == told_) return;
  told_ = report;
  reports_.push_back(report);
  world_.timeline.AddAfter(latency_, EventKind::kReport, place_);
}

Report Island::TakeReport() {
  const Report report = reports_.front();
  reports_.pop_front();
  return report;
}

}  // namespace isthmus::sim
