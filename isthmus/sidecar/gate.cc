#include "isthmus/sidecar/gate.h"

#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::sidecar {
namespace {

// Sums of an instant and so much fit any clock.
constexpr milliseconds kLongestLimit = std::chrono::hours(24 * 365);

void CheckLimit(std::string_view name, milliseconds limit) {
  if (milliseconds(0) <= limit && limit <= kLongestLimit) return;
  Throw(ErrorCode::kInvalid, "gate: {}: {} ms, allowed are 0 to {} ms", name, limit.count(),
        kLongestLimit.count());
}

}  // namespace

std::string_view GateStateName(GateState state) {
  switch (state) {
    case GateState::kBooting:
      return "booting";
    case GateState::kReady:
      return "ready";
    case GateState::kClosing:
      return "closing";
    case GateState::kCommitting:
      return "committing";
    case GateState::kPoisoned:
      return "poisoned";
    case GateState::kStopped:
      return "stopped";
  }
  return "";
}

Gate::Gate(GateOptions options) : options_(std::move(options)), sessions_(options_.sessions) {
  board::CheckRunName(options_.run);
  if (options_.island_pin > board::kMaxVersion) {
    Throw(ErrorCode::kInvalid, "gate: pinned version {}, allowed are up to {}", options_.island_pin,
          board::kMaxVersion);
  }
  CheckLimit("closed_limit", options_.closed_limit);
  CheckLimit("drain_limit", options_.drain_limit);
  CheckLimit("hold_limit", options_.hold_limit);
  CheckLimit("lease", options_.sessions.lease);
  CheckLimit("longest", options_.sessions.longest);
}

Decision Gate::Arrive(const Request& request, MonotonicTime now) {
  Check(request);
  now = Tick(now);
  const RequestId id = ++last_id_;
  Waiter waiter = {request, std::nullopt};
  if (request.wait_ms) waiter.own_deadline = now + *request.wait_ms;
  Verdict verdict = Judge(waiter, now);
  if (verdict.outcome == Outcome::kWaiting) {
    if (verdict.place.deadline <= now) {
      verdict.outcome = Outcome::kNotReady;
    } else if (line_.size() >= options_.max_waiting) {
      verdict = {Outcome::kUnavailable, Reason::kLineFull, {}};
    } else {
      line_.Add(id, std::move(waiter), verdict.place);
    }
  }
  return Settle(id, request, verdict, now);
}

bool Gate::Withdraw(RequestId request) { return line_.Remove(request); }

Stamp Gate::Finish(RequestId request, MonotonicTime now) {
  now = Tick(now);
  Stamp stamp = StampOf(request);
  const auto at = in_flight_.find(request);
  if (!at->second.session.empty()) sessions_.End(at->second.session, now);
  if (leaving_ > 0 && MustLeave(at->second)) --leaving_;
  in_flight_.erase(at);
  if (leaving() == 0) drain_deadline_.reset();
  return stamp;
}

Stamp Gate::StampOf(RequestId request) const {
  const auto at = in_flight_.find(request);
  if (at == in_flight_.end()) {
    Throw(ErrorCode::kInternal, "gate: request {} is not in flight", request);
  }
  return {at->second.start, generating_, log_.Since(at->second.log_place)};
}

Gate::Decisions Gate::Advance(MonotonicTime now) {
  now = Tick(now);
  Decisions decisions;
  for (const RequestId id : line_.Expired(now)) {
    Refuse({id}, Outcome::kNotReady, line_.PlaceOf(id).reason, &decisions);
  }
  if (drain_deadline_ && *drain_deadline_ <= now) {
    drain_deadline_.reset();
    Abort(false, Reason::kDraining, &decisions);
  }
  return decisions;
}

std::optional<MonotonicTime> Gate::next_deadline() const {
  const auto waiting = line_.next_deadline();
  if (!waiting || !drain_deadline_) return waiting ? waiting : drain_deadline_;
  return std::min(*waiting, *drain_deadline_);
}

Gate::Decisions Gate::Learn(VersionNumber head, MonotonicTime now) {
  now = Tick(now);
  board_.Learn(head, now);
  return Release(false, now);
}

Gate::Decisions Gate::Revoke(VersionNumber version, MonotonicTime now) {
  now = Tick(now);
  board_.Revoke(version);
  Decisions decisions;
  Refuse(line_.AskingFor(version), Outcome::kRevoked, Reason::kRevoked, &decisions);
  // The newest version may be an older one now, and so lags smaller.
  const Decisions released = Release(false, now);
  decisions.insert(decisions.end(), released.begin(), released.end());
  return decisions;
}

Decision Gate::Settle(RequestId id, const Request& request, const Verdict& verdict,
                      MonotonicTime now) {
  if (verdict.outcome == Outcome::kAdmitted) Admit(id, request, now);
  return {id, verdict.outcome, verdict.reason, served_};
}

void Gate::Admit(RequestId id, const Request& request, MonotonicTime now) {
  InFlight& admitted = in_flight_[id];
  admitted.min = request.constraint.min_version.value_or(kNoVersion);
  admitted.exact = request.constraint.exact_version.value_or(kNoVersion);
  admitted.start = served_;
  admitted.log_place = log_.count();
  if (!request.pin_session) return;
  admitted.exact = served_;
  admitted.session = request.session;
  sessions_.Begin(request.session, served_, now);
}

// Looks again at the waiting requests for which something has changed.
Gate::Decisions Gate::Release(bool opened, MonotonicTime now) {
  Decisions decisions;
  if (state_ != GateState::kReady) return decisions;
  const Situation situation = {opened, served_, board_.Lag(served_), board_.TimeLag(served_, now)};
  for (const RequestId id : line_.Due(situation)) {
    const Verdict verdict = Judge(line_.At(id), now);
    if (verdict.outcome == Outcome::kWaiting) {
      line_.Move(id, verdict.place);
      continue;
    }
    decisions.push_back(Settle(id, line_.At(id).request, verdict, now));
    line_.Remove(id);
  }
  return decisions;
}

void Gate::Refuse(const std::vector<RequestId>& ids, Outcome outcome, Reason reason,
                  Decisions* out) {
  for (const RequestId id : ids) {
    line_.Remove(id);
    out->push_back({id, outcome, reason, served_});
  }
}

MonotonicTime Gate::Tick(MonotonicTime now) { return now_ = std::max(now_, now); }

}  // namespace isthmus::sidecar
