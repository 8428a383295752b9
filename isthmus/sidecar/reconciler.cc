// Following the board while the engines serve.
#include "isthmus/sidecar/reconciler.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/sidecar/goal.h"

namespace isthmus::sidecar {
namespace {

using net::Task;

// How often a stage is followed by another one because a newer version appeared meanwhile.
constexpr int kMaxStageRounds = 3;

}  // namespace

std::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kBooting:
      return "booting";
    case Phase::kCatchingUp:
      return "catching-up";
    case Phase::kReady:
      return "ready";
    case Phase::kStaging:
      return "staging";
    case Phase::kCommitting:
      return "committing";
    case Phase::kPoisoned:
      return "poisoned";
    case Phase::kReseeding:
      return "reseeding";
    case Phase::kStopped:
      return "stopped";
  }
  return "unknown";
}

Reconciler::Reconciler(net::Loop& loop, ReconcilerOptions options, GateKeeper& keeper,
                       EngineGroup& engines, Presence& presence, Stager& stager,
                       SwitchJournal journal, observe::EventLog& events,
                       std::unique_ptr<engine::Engine> restarter)
    : loop_(loop),
      options_(std::move(options)),
      keeper_(keeper),
      engines_(engines),
      presence_(presence),
      stager_(stager),
      journal_(std::move(journal)),
      events_(events),
      restarter_(std::move(restarter)),
      timer_(loop.get_executor()),
      watch_timer_(loop.get_executor()),
      restart_from_(MonotonicNow() + options_.start_limit) {
  presence_.set_on_doubt([this] { LookNow(); });
}

Task<void> Reconciler::Run() {
  bool watching = true;
  net::Wakeup ended;
  std::exception_ptr failure;
  net::asio::co_spawn(loop_.get_executor(), Watch(), [&](const std::exception_ptr& error) {
    watching = false;
    if (error) failure = error;
    if (error) Abandon();
    looking_ = false;
    looked_.Fire();
    ended.Fire();
  });
  try {
    co_await Work();
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  Abandon();
  while (watching) co_await ended.Wait();
  presence_.Close();
  engines_taken_ = switching_ = false;
  switched_.Fire();
  SetPhase(Phase::kStopped, "the sidecar was told to stop");
  if (failure) std::rethrow_exception(failure);
}

// Nothing new is begun, and those that rest look up.
void Reconciler::Abandon() {
  stopping_ = true;
  timer_.cancel();
  watch_timer_.cancel();
}

Task<void> Reconciler::Work() {
  while (!stopping_) {
    const GateState state = keeper_.gate().state();
    if (state == GateState::kStopped) break;
    if (state == GateState::kReady) {
      co_await Tick();
      MonotonicTime until = next_read_;
      if (hold_until_) until = std::min(until, *hold_until_);
      if (keeper_.gate().state() == GateState::kReady) co_await Rest(&timer_, until);
    } else {
      co_await Recover();
      if (keeper_.gate().state() != GateState::kReady) co_await Rest(&timer_, retry_at_);
    }
  }
}

Task<void> Reconciler::Stop() {
  Abandon();
  while (switching_) co_await switched_.Wait();
}

void Reconciler::Wake() {
  next_read_ = MonotonicNow();
  if (!report_.unloadable.empty()) {
    // Whoever wakes an island that passed a version by may have mended what was wrong.
    report_.unloadable.clear();
    load_failures_.clear();
  }
  timer_.cancel();
}

void Reconciler::Nudge() {
  const MonotonicTime at = std::max(MonotonicNow(), read_at_ + options_.nudge);
  if (at >= next_read_) return;
  next_read_ = at;
  timer_.cancel();
}

void Reconciler::Suspect() {
  // Clients that provoke failures must not keep the engines busy with looks.
  next_look_ = std::max(MonotonicNow(), looked_at_ + options_.inspect / 4);
  watch_timer_.cancel();
}

// Until then, or until somebody cancels the timer.
Task<void> Reconciler::Rest(net::SteadyTimer* timer, MonotonicTime until) const {
  if (stopping_ || until <= MonotonicNow()) co_return;
  timer->expires_at(until);
  try {
    co_await timer->async_wait(net::kAwait);
  } catch (const boost::system::system_error& error) {
    if (error.code() != net::asio::error::operation_aborted) throw;
  }
}

Task<void> Reconciler::Tick() {
  const bool held = hold_until_ && MonotonicNow() >= *hold_until_;
  if (MonotonicNow() < next_read_ && !held) co_return;
  read_at_ = MonotonicNow();
  next_read_ = read_at_ + options_.poll;  // before the reading: a Wake during it asks for another
  co_await ReadLog();
  if (Serving()) co_await Follow();
}

// What may have changed at every await.
bool Reconciler::Serving() const {
  return keeper_.gate().state() == GateState::kReady && !stopping_;
}

Task<void> Reconciler::ReadLog() {
  LogReading reading;
  std::string error;
  try {
    reading = co_await stager_.ReadLog();
    // A log grows: a shorter one is a store that is not there, or not all of it.
    if (reading.head < report_.head) {
      Throw(ErrorCode::kUnavailable,
            "read the log of run {}: it ends at {}, and ended at {} before", options_.run,
            reading.head, report_.head);
    }
    for (VersionNumber version : reading.revoked) {
      if (revoked_.insert(version).second) {
        keeper_.Revoke(version);
        events_.Write("revoked", {{"version", version}});
      }
    }
    if (reading.head != kNoVersion) keeper_.Learn(reading.head);
  } catch (const Error& failure) {
    error = failure.what();
  }
  if (error.empty() != report_.board_error.empty()) {
    events_.Write(error.empty() ? "board_reached" : "board_lost", {{"error", error}});
  }
  report_.board_error = error;
  if (!error.empty()) co_return;
  report_.head = reading.head;
  report_.board_read = SystemClock().Now();
}

VersionNumber Reconciler::Goal() const {
  return ChooseGoal({.head = report_.head,
                     .served = keeper_.gate().served(),
                     .island_pin = options_.island_pin,
                     .wanted_exactly = keeper_.gate().WantedExactly()},
                    revoked_, report_.unloadable);
}

// Ready. Stages what should be served and switches to it, unless leases of sessions forbid it yet.
Task<void> Reconciler::Follow() {
  hold_until_.reset();
  VersionNumber goal = Goal();
  report_.target = goal;
  if (goal == kNoVersion || goal == keeper_.gate().served()) {
    hold_began_.reset();
    co_return;
  }
  if (!co_await StageGoal(&goal) || !Serving()) co_return;
  if (goal == keeper_.gate().served()) co_return;
  if (std::string misfit = MisfitOf(goal); !misfit.empty()) {
    SetPhase(Phase::kReady, std::move(misfit));
    next_read_ = MonotonicNow();  // an older one may do
    co_return;
  }
  const MonotonicTime free_at = keeper_.Prepare(goal);
  if (!hold_began_) hold_began_ = MonotonicNow();
  if (free_at > MonotonicNow()) {
    hold_until_ = free_at;
    SetPhase(Phase::kReady, fmt::format("version {} is staged; sessions hold version {}", goal,
                                        keeper_.gate().served()));
    co_return;
  }
  staging_.hold_ms =
      std::chrono::duration<double, std::milli>(MonotonicNow() - *hold_began_).count();
  hold_began_.reset();
  co_await Switch(goal);
}

// Empty if it fits. Engines that are made to load another model's weights fail half-way, or do not
// fail.
std::string Reconciler::MisfitOf(VersionNumber goal) {
  if (served_layout_.empty() || served_layout_ == verified_layout_) return "";
  report_.unloadable.insert(goal);
  events_.Write("unloadable", {{"version", goal}, {"reason", "another model"}});
  return fmt::format(
      "version {} is of another model: tensors, shapes, dtypes or config.json differ from "
      "those that the engines were started with; start the engines anew, then the sidecar",
      goal);
}

// Brings the local checkpoint to the goal, and to a newer goal that appeared meanwhile. False if it
// could not; the engines serve on.
Task<bool> Reconciler::StageGoal(VersionNumber* goal) {
  std::optional<Error> failure;
  for (int round = 0; round < kMaxStageRounds; ++round) {
    if (stager_.held() != *goal || verified_ != *goal) {
      SetPhase(Phase::kStaging, "");
      try {
        AddStaged(co_await stager_.Stage(*goal));
      } catch (const Error& error) {
        failure = error;
      }
    }
    if (failure || !Serving()) break;
    co_await ReadLog();
    if (!Serving()) break;
    const VersionNumber next = Goal();
    if (next == *goal || next == kNoVersion) break;
    report_.target = *goal = next;
    if (next == keeper_.gate().served()) break;
  }
  if (failure) events_.Write("stage_failed", {{"version", *goal}, {"error", failure->what()}});
  if (!Serving()) co_return false;
  if (failure) {
    SetPhase(Phase::kReady, fmt::format("stage version {}: {}", *goal, failure->what()));
    co_return false;
  }
  SetPhase(Phase::kReady, "");
  // Rounds are over, and yet it moved on: go with what is there, the next one comes soon.
  if (verified_ != *goal && *goal != keeper_.gate().served()) *goal = verified_;
  co_return true;
}

void Reconciler::AddStaged(const Staged& staged) {
  verified_ = staged.pull.to;
  verified_layout_ = staged.layout;
  staging_.fetch_ms += staged.fetch_ms;
  staging_.apply_ms += staged.apply_ms;
  staging_.check_ms += staged.verify_ms;
  staging_.stage_ms += staged.total_ms;
  staging_.fetched_bytes += staged.pull.fetched_bytes;
  boost::json::array notes(staged.pull.notes.begin(), staged.pull.notes.end());
  boost::json::array chain(staged.pull.chain.begin(), staged.pull.chain.end());
  events_.Write("staged", {{"version", staged.pull.to},
                           {"chain", std::move(chain)},
                           {"fetched_bytes", staged.pull.fetched_bytes},
                           {"stage_ms", staged.total_ms},
                           {"notes", std::move(notes)}});
}

void Reconciler::SetPhase(Phase phase, std::string reason) {
  report_.phase = phase;
  report_.reason = std::move(reason);
  if (on_change_) on_change_();
}

}  // namespace isthmus::sidecar
