// How the gate closes, drains and opens.
#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/sidecar/gate.h"

namespace isthmus::sidecar {

MonotonicTime Gate::Prepare(VersionNumber target, MonotonicTime now) {
  Require(state_ == GateState::kReady && Possible(target), "Prepare");
  now = Tick(now);
  if (target != served_ && !hold_since_) hold_since_ = now;
  return FreeAt(target);
}

Gate::Decisions Gate::Close(DrainPolicy policy, VersionNumber target, MonotonicTime now) {
  Require(state_ == GateState::kReady && Possible(target) && !board_.revoked(target) &&
              FreeAt(target) <= std::max(now, now_),
          "Close");
  now = Tick(now);
  state_ = GateState::kClosing;
  policy_ = policy;
  target_ = target;
  closed_deadline_ = now + options_.closed_limit;
  leaving_ = static_cast<size_t>(std::ranges::count_if(
      in_flight_, [this](const auto& entry) { return MustLeave(entry.second); }));
  Decisions decisions;
  if (policy == DrainPolicy::kAbort) {
    Abort(false, Reason::kDraining, &decisions);
  } else if (leaving_ > 0) {
    drain_deadline_ = now + options_.drain_limit;
  }
  return decisions;
}

size_t Gate::leaving() const {
  switch (state_) {
    case GateState::kReady:
    case GateState::kClosing:
    case GateState::kCommitting:
      return leaving_;
    case GateState::kBooting:
    case GateState::kPoisoned:
    case GateState::kStopped:
      return in_flight_.size();
  }
  return 0;
}

Gate::Decisions Gate::Reopen(MonotonicTime now) {
  Require(state_ == GateState::kClosing, "Reopen");
  now = Tick(now);
  state_ = GateState::kReady;
  target_ = kNoVersion;
  leaving_ = 0;
  drain_deadline_.reset();
  return Release(true, now);
}

void Gate::BeginCommit(MonotonicTime now) {
  Require(state_ == GateState::kClosing && leaving_ == 0, "BeginCommit");
  state_ = GateState::kCommitting;
  paused_ = Tick(now);
}

void Gate::Resume(MonotonicTime now) {
  Require(state_ == GateState::kCommitting && paused_.has_value(), "Resume");
  now = Tick(now);
  if (target_ != generating_) log_.Add({generating_, target_, *paused_, now});
  generating_ = target_;
  paused_.reset();
}

Gate::Decisions Gate::Open(VersionNumber version, MonotonicTime now) {
  const bool committed = state_ == GateState::kCommitting && version == target_;
  const bool started = (state_ == GateState::kBooting || state_ == GateState::kPoisoned) &&
                       leaving() == 0 && Possible(version);
  Require(committed || started, "Open");
  now = Tick(now);
  if (paused_) Resume(now);
  state_ = GateState::kReady;
  served_ = generating_ = version;
  target_ = kNoVersion;
  hold_since_.reset();
  board_.ForgetBefore(version);
  return Release(true, now);
}

Gate::Decisions Gate::Boot(MonotonicTime now) {
  Require(state_ != GateState::kStopped, "Boot");
  Tick(now);
  return Shut(GateState::kBooting, Reason::kBooting);
}

Gate::Decisions Gate::Poison(MonotonicTime now) {
  Require(state_ != GateState::kStopped, "Poison");
  Tick(now);
  return Shut(GateState::kPoisoned, Reason::kPoisoned);
}

Gate::Decisions Gate::Stop(MonotonicTime now) {
  now = Tick(now);
  Decisions decisions;
  if (state_ == GateState::kStopped) return decisions;
  if (state_ == GateState::kCommitting) return Shut(GateState::kStopped, Reason::kStopped);
  state_ = GateState::kStopped;
  target_ = kNoVersion;
  policy_ = DrainPolicy::kDrain;
  leaving_ = 0;
  Refuse(line_.All(), Outcome::kUnavailable, Reason::kStopped, &decisions);
  if (!in_flight_.empty()) drain_deadline_ = now + options_.drain_limit;
  return decisions;
}

// Ends everything: what the engines generate is worth nothing, or nobody knows what it is worth.
Gate::Decisions Gate::Shut(GateState state, Reason reason) {
  state_ = state;
  served_ = target_ = kNoVersion;
  leaving_ = 0;
  drain_deadline_.reset();
  paused_.reset();
  Decisions decisions;
  Refuse(line_.All(), Outcome::kUnavailable, reason, &decisions);
  Abort(true, reason, &decisions);
  return decisions;
}

bool Gate::MustLeave(const InFlight& request) const {
  if (policy_ != DrainPolicy::kInPlace) return true;
  return request.min > target_ || (request.exact != kNoVersion && request.exact != target_);
}

// All in flight, or those that must leave; none of them twice.
void Gate::Abort(bool all, Reason reason, Decisions* out) {
  for (auto& [id, request] : in_flight_) {
    if (request.aborted || !(all || MustLeave(request))) continue;
    request.aborted = true;
    out->push_back({id, Outcome::kAborted, reason, served_});
  }
}

// Whether this island may ever serve the version.
bool Gate::Possible(VersionNumber version) const {
  return version != kNoVersion && version <= board::kMaxVersion &&
         (options_.island_pin == kNoVersion || options_.island_pin == version);
}

MonotonicTime Gate::FreeAt(VersionNumber target) const {
  if (target == served_ || board_.revoked(served_)) return MonotonicTime::min();
  const MonotonicTime held_until = sessions_.HeldUntil(served_);
  if (!hold_since_) return held_until;
  return std::min(held_until, *hold_since_ + options_.hold_limit);
}

void Gate::Require(bool allowed, std::string_view call) const {
  if (allowed) return;
  Throw(ErrorCode::kInternal, "gate: {} while {} at version {}, target {}, {} requests leaving",
        call, GateStateName(state_), served_, target_, leaving());
}

}  // namespace isthmus::sidecar
