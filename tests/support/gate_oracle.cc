#include "tests/support/gate_oracle.h"

namespace isthmus::sidecar {

Decision GateOracle::Arrive(const Request& request, MonotonicTime now) {
  Live live = {++last_id_, request, false, {}, {}, {}, {}, {}, false, {}};
  if (request.wait_ms) live.own_deadline = now + *request.wait_ms;
  Decision decision = Decide(&live, now);
  if (decision.outcome == Outcome::kWaiting) {
    if (live.deadline <= now) return {live.id, Outcome::kNotReady, decision.reason, served};
    if (waiting() >= options_.max_waiting) return Full(live.id, Reason::kLineFull);
  }
  if (live.waiting || decision.outcome == Outcome::kAdmitted) lives.push_back(live);
  return decision;
}

bool GateOracle::Withdraw(RequestId id) {
  return std::erase_if(lives, [&](const Live& l) { return l.id == id && l.waiting; }) > 0;
}

Stamp GateOracle::Finish(RequestId id, MonotonicTime now) {
  const auto at = std::ranges::find(lives, id, &Live::id);
  const Live live = *at;
  lives.erase(at);
  if (live.request.pin_session) {
    Session& session = *FindSession(live.request.session);
    --session.turns;
    Renew(&session, now);
  }
  return live.stamp;
}

GateOracle::Decisions GateOracle::Advance(MonotonicTime now) {
  Decisions decisions;
  std::vector<Live> expired;
  for (const Live& l : lives) {
    if (l.waiting && l.deadline <= now) expired.push_back(l);
  }
  std::ranges::stable_sort(expired, {}, &Live::deadline);
  for (const Live& l : expired) {
    Withdraw(l.id);
    decisions.push_back({l.id, Outcome::kNotReady, l.reason, served});
  }
  if (DrainDeadline() && *DrainDeadline() <= now) {
    drain_deadline_.reset();
    AbortIf([this](const Live& l) { return MustLeave(l); }, Reason::kDraining, &decisions);
  }
  return decisions;
}

GateOracle::Decisions GateOracle::Learn(VersionNumber head, MonotonicTime now) {
  if (readings_.empty() || head >= readings_.back().first) readings_.emplace_back(head, now);
  return Release(false, now);
}

GateOracle::Decisions GateOracle::Revoke(VersionNumber version, MonotonicTime now) {
  revoked.push_back(version);
  Decisions decisions;
  for (const Live& l : std::vector<Live>(lives)) {
    if (!l.waiting || l.request.constraint.exact_version != version) continue;
    Withdraw(l.id);
    decisions.push_back({l.id, Outcome::kRevoked, Reason::kRevoked, served});
  }
  for (const Decision& decision : Release(false, now)) decisions.push_back(decision);
  return decisions;
}

bool GateOracle::MayPrepare(VersionNumber version) const {
  return state == GateState::kReady && Possible(version);
}

MonotonicTime GateOracle::Prepare(VersionNumber version, MonotonicTime now) {
  if (version != served && !hold_since_) hold_since_ = now;
  return FreeAt(version);
}

bool GateOracle::MayClose(VersionNumber version, MonotonicTime now) const {
  return MayPrepare(version) && !IsRevoked(version) && FreeAt(version) <= now;
}

GateOracle::Decisions GateOracle::Close(DrainPolicy policy, VersionNumber version,
                                        MonotonicTime now) {
  state = GateState::kClosing;
  target = version;
  policy_ = policy;
  closed_deadline_ = now + options_.closed_limit;
  drain_deadline_.reset();
  Decisions decisions;
  if (policy == DrainPolicy::kAbort) {
    AbortIf([](const Live&) { return true; }, Reason::kDraining, &decisions);
  } else {
    drain_deadline_ = now + options_.drain_limit;
  }
  return decisions;
}

GateOracle::Decisions GateOracle::Reopen(MonotonicTime now) {
  state = GateState::kReady;
  target = kNoVersion;
  return Release(true, now);
}

void GateOracle::BeginCommit(MonotonicTime now) {
  state = GateState::kCommitting;
  paused_ = now;
}

void GateOracle::Resume(MonotonicTime now) {
  for (Live& l : lives) {
    if (l.waiting || l.stamp.end == target) continue;
    l.stamp.record.changes.push_back({l.stamp.end, target, *paused_, now});
    l.stamp.end = target;
  }
  paused_.reset();
}

bool GateOracle::MayOpen(VersionNumber version) const {
  if (state == GateState::kCommitting) return version == target;
  return (state == GateState::kBooting || state == GateState::kPoisoned) && leaving() == 0 &&
         Possible(version);
}

GateOracle::Decisions GateOracle::Open(VersionNumber version, MonotonicTime now) {
  if (paused_) Resume(now);
  state = GateState::kReady;
  served = version;
  target = kNoVersion;
  hold_since_.reset();
  // Only the last reading at or before what is served is remembered.
  while (readings_.size() > 1 && readings_[1].first <= version) readings_.erase(readings_.begin());
  return Release(true, now);
}

GateOracle::Decisions GateOracle::End(GateState to, Reason reason, MonotonicTime now) {
  const bool may_end = to == GateState::kStopped && state != GateState::kCommitting;
  Decisions decisions;
  if (state == GateState::kStopped) return decisions;
  state = to;
  target = kNoVersion;
  if (!may_end) served = kNoVersion;
  paused_.reset();
  for (const Live& l : std::vector<Live>(lives)) {
    if (!l.waiting) continue;
    Withdraw(l.id);
    decisions.push_back({l.id, Outcome::kUnavailable, reason, served});
  }
  if (may_end) {
    policy_ = DrainPolicy::kDrain;
    drain_deadline_ = now + options_.drain_limit;
  } else {
    AbortIf([](const Live&) { return true; }, reason, &decisions);
    drain_deadline_.reset();
  }
  return decisions;
}

size_t GateOracle::leaving() const {
  if (state == GateState::kReady || state == GateState::kCommitting) return 0;
  size_t count = 0;
  for (const Live& l : lives) {
    if (!l.waiting && (state != GateState::kClosing || MustLeave(l))) ++count;
  }
  return count;
}

std::optional<MonotonicTime> GateOracle::NextDeadline() const {
  std::optional<MonotonicTime> next = DrainDeadline();
  for (const Live& l : lives) {
    if (l.waiting) next = std::min(next.value_or(l.deadline), l.deadline);
  }
  return next;
}

VersionNumber GateOracle::WantedExactly() const {
  VersionNumber lowest = kNoVersion;
  for (const Live& l : lives) {
    const VersionNumber exact = l.request.constraint.exact_version.value_or(kNoVersion);
    if (!l.waiting || exact <= served) continue;
    if (lowest == kNoVersion || exact < lowest) lowest = exact;
  }
  return lowest;
}

bool GateOracle::IsRevoked(VersionNumber version) const {
  return std::ranges::find(revoked, version) != revoked.end();
}

Decision GateOracle::Full(RequestId id, Reason reason) const {
  return {id, Outcome::kUnavailable, reason, served};
}

bool GateOracle::Possible(VersionNumber version) const {
  return options_.island_pin == kNoVersion || options_.island_pin == version;
}

bool GateOracle::MustLeave(const Live& l) const {
  if (policy_ != DrainPolicy::kInPlace) return true;
  if (l.exact != kNoVersion && l.exact != target) return true;
  return l.request.constraint.min_version.value_or(0) > target;
}

std::optional<MonotonicTime> GateOracle::DrainDeadline() const {
  const bool drains = state == GateState::kClosing || state == GateState::kStopped;
  return drains && leaving() > 0 ? drain_deadline_ : std::nullopt;
}

GateOracle::Session* GateOracle::FindSession(const std::string& name) {
  const auto at = std::ranges::find(sessions_, name, &Session::name);
  return at == sessions_.end() ? nullptr : &*at;
}

std::vector<GateOracle::Session>::iterator GateOracle::Ended(MonotonicTime now) {
  auto best = sessions_.end();
  for (auto at = sessions_.begin(); at != sessions_.end(); ++at) {
    if (at->turns > 0 || at->lease_end > now) continue;
    if (best == sessions_.end() ||
        std::pair(at->lease_end, at->name) < std::pair(best->lease_end, best->name)) {
      best = at;
    }
  }
  return best;
}

void GateOracle::Renew(Session* session, MonotonicTime now) const {
  session->lease_end =
      session->turns > 0 ? session->bound : std::min(now + options_.sessions.lease, session->bound);
}

void GateOracle::BeginTurn(const std::string& name, MonotonicTime now) {
  if (FindSession(name) == nullptr) {
    if (sessions_.size() == options_.sessions.max_sessions) sessions_.erase(Ended(now));
    sessions_.push_back({name, served, now + options_.sessions.longest, now, 0});
  }
  Session& session = *FindSession(name);
  ++session.turns;
  Renew(&session, now);
}

MonotonicTime GateOracle::FreeAt(VersionNumber version) const {
  MonotonicTime held = MonotonicTime::min();
  if (version == served || IsRevoked(served)) return held;
  for (const Session& session : sessions_) {
    if (session.version == served) held = std::max(held, session.lease_end);
  }
  return hold_since_ ? std::min(held, *hold_since_ + options_.hold_limit) : held;
}

VersionNumber GateOracle::Newest() const {
  VersionNumber newest = readings_.back().first;
  while (IsRevoked(newest)) --newest;
  return newest;
}

Reason GateOracle::Shortfall(const Constraint& c, VersionNumber version, MonotonicTime now) const {
  if (c.exact_version && *c.exact_version < version) return Reason::kPassed;
  if (c.exact_version && *c.exact_version > version) return Reason::kBehind;
  if (c.min_version && *c.min_version > version) return Reason::kBehind;
  if (IsRevoked(version)) return Reason::kServedRevoked;
  if (IsFresh(c, version, now)) return Reason::kNone;
  return c.max_lag_versions ? Reason::kLag : Reason::kTimeLag;
}

// Whether the version's lag is as small as the constraint, which has one lag at most, asks for.
bool GateOracle::IsFresh(const Constraint& c, VersionNumber version, MonotonicTime now) const {
  if (c.max_lag_versions) {
    return !readings_.empty() && version + *c.max_lag_versions >= Newest();
  }
  if (!c.max_lag_ms) return true;
  std::optional<MonotonicTime> seen;
  for (const auto& [head, at] : readings_) {
    if (head <= version || version >= Newest()) seen = at;
  }
  return seen && now - *seen <= *c.max_lag_ms;
}

// What is said about a request that arrives, or that waits and is looked at again.
Decision GateOracle::Decide(Live* l, MonotonicTime now) {
  const Request& request = l->request;
  Constraint c = request.constraint;
  const auto refuse = [&](Outcome outcome, Reason reason) {
    l->waiting = false;
    return Decision{l->id, outcome, reason, served};
  };
  if (!c.run.empty() && c.run != options_.run) return refuse(Outcome::kNotReady, Reason::kOtherRun);
  const Session* session = request.pin_session ? FindSession(request.session) : nullptr;
  if (session != nullptr) {
    if (c.min_version.value_or(0) > session->version ||
        c.exact_version.value_or(session->version) != session->version) {
      return refuse(Outcome::kNotReady, Reason::kSessionPin);
    }
    c.exact_version = session->version;
  }
  if (c.exact_version && IsRevoked(*c.exact_version)) {
    return refuse(Outcome::kRevoked, Reason::kRevoked);
  }
  if (state == GateState::kBooting) return refuse(Outcome::kUnavailable, Reason::kBooting);
  if (state == GateState::kPoisoned) return refuse(Outcome::kUnavailable, Reason::kPoisoned);
  if (state == GateState::kStopped) return refuse(Outcome::kUnavailable, Reason::kStopped);

  const bool ready = state == GateState::kReady;
  const Reason shortfall = Shortfall(c, ready ? served : target, now);
  if (shortfall == Reason::kNone && ready) {
    if (in_flight() >= options_.max_in_flight)
      return refuse(Outcome::kUnavailable, Reason::kInFlightFull);
    if (request.pin_session && session == nullptr &&
        sessions_.size() >= options_.sessions.max_sessions && Ended(now) == sessions_.end()) {
      return refuse(Outcome::kUnavailable, Reason::kSessionsFull);
    }
    l->waiting = false;
    l->exact = request.pin_session ? served : c.exact_version.value_or(kNoVersion);
    l->stamp = {served, served, {}};
    if (request.pin_session) BeginTurn(request.session, now);
    return {l->id, Outcome::kAdmitted, Reason::kNone, served};
  }
  if (shortfall == Reason::kPassed) return refuse(Outcome::kNotReady, shortfall);
  if (shortfall == Reason::kNone) {
    l->deadline = std::min(l->own_deadline.value_or(closed_deadline_), closed_deadline_);
    l->reason = Reason::kSwitching;
  } else if (options_.island_pin != kNoVersion) {
    return refuse(Outcome::kNotReady, Reason::kIslandPinned);
  } else if (!l->own_deadline || (c.exact_version && shortfall != Reason::kBehind)) {
    return refuse(Outcome::kNotReady, shortfall);
  } else {
    l->deadline = *l->own_deadline;
    l->reason = shortfall;
    l->need = std::max(c.min_version.value_or(0), c.exact_version.value_or(0));
  }
  l->waiting = true;
  return {l->id, Outcome::kWaiting, l->reason, served};
}

GateOracle::Decisions GateOracle::Release(bool opened, MonotonicTime now) {
  Decisions decisions;
  if (state != GateState::kReady) return decisions;
  const auto due = [&](const Live& l) {
    if (l.reason == Reason::kBehind) return l.need <= served;
    if (l.reason == Reason::kLag || l.reason == Reason::kTimeLag) {
      return IsFresh(l.request.constraint, served, now);
    }
    return opened;
  };
  std::vector<Live> before = lives;
  for (Live& l : before) {
    if (!l.waiting || !due(l)) continue;
    const Decision decision = Decide(&l, now);
    *std::ranges::find(lives, l.id, &Live::id) = l;
    if (decision.outcome == Outcome::kWaiting) continue;
    decisions.push_back(decision);
    if (decision.outcome != Outcome::kAdmitted)
      std::erase_if(lives, [&](const Live& x) { return x.id == l.id; });
  }
  return decisions;
}

}  // namespace isthmus::sidecar
