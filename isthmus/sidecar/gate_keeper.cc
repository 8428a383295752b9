#include "isthmus/sidecar/gate_keeper.h"

#include <utility>

namespace isthmus::sidecar {
namespace {}  // namespace

// A request between its arrival and its Admission: whatever ends the coroutine, the gate learns it.
class GateKeeper::Visit {
 public:
  explicit Visit(GateKeeper& keeper) : keeper_(keeper), place_(std::make_unique<Place>()) {}
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  ~Visit() {
    if (!place_ || place_->decision.request == 0) return;
    const RequestId id = place_->decision.request;
    keeper_.places_.erase(id);
    if (place_->decision.outcome == Outcome::kWaiting) keeper_.gate_.Withdraw(id);
    if (place_->decision.outcome == Outcome::kAdmitted) keeper_.Finish(id);
    keeper_.Schedule();
  }

  Place& place() { return *place_; }
  void Arrive(const Request& request) {
    place_->decision = keeper_.gate_.Arrive(request, MonotonicNow());
    keeper_.places_[place_->decision.request] = place_.get();
    keeper_.Schedule();
  }
  Admission End() {
    const Decision decision = place_->decision;
    if (decision.outcome != Outcome::kAdmitted) keeper_.places_.erase(decision.request);
    return {&keeper_, decision, std::exchange(place_, nullptr)};
  }

 private:
  GateKeeper& keeper_;
  std::unique_ptr<Place> place_;
};

GateKeeper::GateKeeper(net::Loop& loop, GateOptions options)
    : gate_(std::move(options)), timer_(loop.get_executor()) {}

net::Task<Admission> GateKeeper::Admit(Request request) {
  Visit visit(*this);
  visit.Arrive(request);
  if (visit.place().decision.outcome == Outcome::kWaiting && on_waiting_) on_waiting_();
  while (visit.place().decision.outcome == Outcome::kWaiting) {
    co_await visit.place().decided.Wait();
  }
  co_return visit.End();
}

net::Task<void> GateKeeper::Drained() {
  while (gate_.leaving() > 0) co_await drained_.Wait();
}

void GateKeeper::Learn(VersionNumber head) { CarryOut(gate_.Learn(head, MonotonicNow())); }
void GateKeeper::Revoke(VersionNumber version) { Change(gate_.Revoke(version, MonotonicNow())); }
MonotonicTime GateKeeper::Prepare(VersionNumber target) {
  return gate_.Prepare(target, MonotonicNow());
}
void GateKeeper::Close(DrainPolicy policy, VersionNumber target) {
  Change(gate_.Close(policy, target, MonotonicNow()));
}
void GateKeeper::Reopen() { Change(gate_.Reopen(MonotonicNow())); }
void GateKeeper::BeginCommit() { gate_.BeginCommit(MonotonicNow()); }
void GateKeeper::Resume() { gate_.Resume(MonotonicNow()); }
void GateKeeper::Open(VersionNumber version) { Change(gate_.Open(version, MonotonicNow())); }
void GateKeeper::Boot() { Change(gate_.Boot(MonotonicNow())); }
void GateKeeper::Poison() { Change(gate_.Poison(MonotonicNow())); }
void GateKeeper::Stop() { Change(gate_.Stop(MonotonicNow())); }

void GateKeeper::Change(const Gate::Decisions& decisions) {
  CarryOut(decisions);
  if (on_change_) on_change_();
}

void GateKeeper::CarryOut(const Gate::Decisions& decisions) {
  Schedule();
  // All are noted before the first coroutine runs: one that ends must find what was decided about
  // it.
  for (const Decision& decision : decisions) {
    const auto found = places_.find(decision.request);
    if (found == places_.end()) continue;
    Place& place = *found->second;
    if (decision.outcome == Outcome::kAborted) {
      place.aborted = true;
    } else {
      place.decision = decision;
    }
  }
  for (const Decision& decision : decisions) {
    // Looked up again: a coroutine that ran may have ended others.
    const auto found = places_.find(decision.request);
    if (found == places_.end()) continue;
    Place& place = *found->second;
    if (decision.outcome != Outcome::kAborted) {
      place.decided.Fire();
    } else if (auto end = std::exchange(place.on_abort, nullptr)) {
      end();
    }
  }
}

// One timer for all deadlines, moved only when the next one comes earlier.
void GateKeeper::Schedule() {
  const std::optional<MonotonicTime> next = gate_.next_deadline();
  if (!next || (scheduled_ && *scheduled_ <= *next)) return;
  scheduled_ = next;
  timer_.expires_at(*next);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;  // moved, or the loop ends
    scheduled_.reset();
    CarryOut(gate_.Advance(MonotonicNow()));
    Schedule();
  });
}

Stamp GateKeeper::Finish(RequestId request) {
  Stamp stamp = gate_.Finish(request, MonotonicNow());
  if (gate_.leaving() == 0) drained_.Fire();
  return stamp;
}

Admission::~Admission() {
  if (place_ && admitted()) Finish();
}

void Admission::OnAbort(std::function<void()> end) {
  if (place_->aborted) return end();
  place_->on_abort = std::move(end);
}

Stamp Admission::stamp() const {
  return final_ ? *final_ : keeper_->gate_.StampOf(decision_.request);
}

void Admission::Finish() {
  if (final_) return;
  keeper_->places_.erase(decision_.request);
  final_ = keeper_->Finish(decision_.request);
}

}  // namespace isthmus::sidecar
