// What is decided about one request in the situation of now; nothing is changed here.
#include <algorithm>

#include "isthmus/sidecar/gate.h"

namespace isthmus::sidecar {
namespace {

bool Allows(const Constraint& constraint, VersionNumber version) {
  return constraint.min_version.value_or(0) <= version &&
         constraint.exact_version.value_or(version) == version;
}

VersionNumber NeededVersion(const Constraint& constraint) {
  return std::max(constraint.min_version.value_or(0), constraint.exact_version.value_or(0));
}

// What a request with this shortfall waits for.
Place PlaceFor(Reason shortfall, const Constraint& constraint, MonotonicTime deadline) {
  Place place = {WaitsFor::kOpening, 0, deadline, shortfall};
  if (shortfall == Reason::kBehind) {
    place.what = WaitsFor::kVersion;
    place.key = NeededVersion(constraint);
  } else if (shortfall == Reason::kLag) {
    place.what = WaitsFor::kLag;
    place.key = *constraint.max_lag_versions;
  } else if (shortfall == Reason::kTimeLag) {
    place.what = WaitsFor::kTimeLag;
    place.key = static_cast<uint64_t>(constraint.max_lag_ms->count());
  }
  return place;
}

}  // namespace

Gate::Verdict Gate::Judge(const Waiter& waiter, MonotonicTime now) const {
  const Request& request = waiter.request;
  Constraint constraint = request.constraint;
  if (!constraint.run.empty() && constraint.run != options_.run) {
    return {Outcome::kNotReady, Reason::kOtherRun, {}};
  }
  const VersionNumber pin = request.pin_session ? sessions_.PinOf(request.session) : kNoVersion;
  if (pin != kNoVersion) {
    if (!Allows(constraint, pin)) return {Outcome::kNotReady, Reason::kSessionPin, {}};
    constraint.exact_version = pin;
  }
  if (board_.revoked(constraint.exact_version.value_or(kNoVersion))) {
    return {Outcome::kRevoked, Reason::kRevoked, {}};
  }
  switch (state_) {
    case GateState::kBooting:
      return {Outcome::kUnavailable, Reason::kBooting, {}};
    case GateState::kPoisoned:
      return {Outcome::kUnavailable, Reason::kPoisoned, {}};
    case GateState::kStopped:
      return {Outcome::kUnavailable, Reason::kStopped, {}};
    case GateState::kReady:
    case GateState::kClosing:
    case GateState::kCommitting:
      break;
  }
  return JudgeAgainst(constraint, waiter, now);
}

Gate::Verdict Gate::JudgeAgainst(const Constraint& constraint, const Waiter& waiter,
                                 MonotonicTime now) const {
  const bool ready = state_ == GateState::kReady;
  const Reason shortfall = Shortfall(constraint, ready ? served_ : target_, now);
  if (shortfall == Reason::kNone) {
    return ready ? JudgeRoom(waiter.request, now) : WaitForOpening(waiter);
  }
  if (shortfall == Reason::kPassed) return {Outcome::kNotReady, shortfall, {}};
  if (options_.island_pin != kNoVersion) return {Outcome::kNotReady, Reason::kIslandPinned, {}};
  // The one version that it may have is here and does not get newer.
  const bool exact_lags = constraint.exact_version && shortfall != Reason::kBehind;
  if (exact_lags || !waiter.own_deadline) return {Outcome::kNotReady, shortfall, {}};
  return {Outcome::kWaiting, shortfall, PlaceFor(shortfall, constraint, *waiter.own_deadline)};
}

Gate::Verdict Gate::JudgeRoom(const Request& request, MonotonicTime now) const {
  if (in_flight_.size() >= options_.max_in_flight) {
    return {Outcome::kUnavailable, Reason::kInFlightFull, {}};
  }
  if (request.pin_session && !sessions_.HasRoom(request.session, now)) {
    return {Outcome::kUnavailable, Reason::kSessionsFull, {}};
  }
  return {};
}

Gate::Verdict Gate::WaitForOpening(const Waiter& waiter) const {
  const auto deadline = std::min(waiter.own_deadline.value_or(closed_deadline_), closed_deadline_);
  return {
      Outcome::kWaiting, Reason::kSwitching, {WaitsFor::kOpening, 0, deadline, Reason::kSwitching}};
}

// Why `version` does not satisfy the constraint; kNone if it does.
Reason Gate::Shortfall(const Constraint& constraint, VersionNumber version,
                       MonotonicTime now) const {
  if (constraint.exact_version.value_or(version) < version) return Reason::kPassed;
  if (NeededVersion(constraint) > version) return Reason::kBehind;
  if (board_.revoked(version)) return Reason::kServedRevoked;
  const auto& max_lag = constraint.max_lag_versions;
  if (max_lag && *max_lag < board_.Lag(version)) return Reason::kLag;
  const auto& max_lag_ms = constraint.max_lag_ms;
  if (max_lag_ms && *max_lag_ms < board_.TimeLag(version, now)) return Reason::kTimeLag;
  return Reason::kNone;
}

}  // namespace isthmus::sidecar
