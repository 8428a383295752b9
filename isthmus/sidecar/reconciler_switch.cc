// Switching the engines to a staged version, and getting back to one after anything went wrong.
#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/sidecar/reconciler.h"

namespace isthmus::sidecar {
namespace {

using net::Task;

// Of loads of changes, in a row; then this process makes no more.
constexpr size_t kFailedChanges = 2;

std::string LabelOf(VersionNumber version) { return std::to_string(version); }

engine::PauseMode PauseModeOf(DrainPolicy policy, const engine::Abilities& abilities) {
  if (policy == DrainPolicy::kAbort) return engine::PauseMode::kAbort;
  const bool keep = policy == DrainPolicy::kInPlace && abilities.keeps;
  return keep ? engine::PauseMode::kKeep : engine::PauseMode::kWait;
}

}  // namespace

// Ready, and `goal` is staged and verified. Ends ready at the goal; ready at the version served
// before, if nothing was loaded; or poisoned, or booting.
Task<void> Reconciler::Switch(VersionNumber goal) {
  Update update = std::exchange(staging_, {});
  update.from = keeper_.gate().served();
  update.to = goal;
  co_await TakeEngines();
  co_await PrepareChangesTo(goal);
  // A session may have begun a turn at the served version meanwhile.
  if (!Serving() || keeper_.Prepare(goal) > MonotonicNow()) {
    engines_taken_ = false;
    hold_until_ = MonotonicNow();
    staging_ = std::move(update);
    co_return;
  }
  switching_ = true;
  SetPhase(Phase::kCommitting, "");
  const MonotonicTime closed_at = MonotonicNow();
  std::optional<Error> failure;
  try {
    keeper_.Close(options_.policy, goal);
    WriteJournal(kNoVersion, goal);  // before the first call to the engines
    co_await Commit(goal, closed_at, &update);
  } catch (const Error& error) {
    failure = error;
  }
  if (!failure) {
    SetPhase(Phase::kReady, "");
    next_read_ = MonotonicNow();  // there may be more versions, or this one was a stop on the way
  } else if (keeper_.gate().state() == GateState::kCommitting) {
    keeper_.Poison();
    ++failed_loads_;
    NoteLoadFailure(goal);
    SetPhase(Phase::kPoisoned, failure->what());
    retry_at_ = MonotonicNow();
  } else {
    co_await GiveUp(*failure, goal);
  }
  if (failure) {
    update.error = failure->what();
    update.closed_ms = SecondsSince(closed_at) * 1000;
  }
  Record(std::move(update));
  engines_taken_ = switching_ = false;
  if (!presence_.proven()) LookNow();
  switched_.Fire();
}

Task<void> Reconciler::Commit(VersionNumber goal, MonotonicTime closed_at, Update* update) {
  {
    const Lap lap(&update->drain_ms);
    co_await keeper_.Drained();
  }
  const MonotonicTime paused_at = MonotonicNow();
  {
    const Lap lap(&update->pause_ms);
    co_await engines_.Pause(PauseModeOf(options_.policy, *abilities_));
  }
  // What another process has generated must not be taken for the old version once this is loaded.
  if (!presence_.proven()) {
    Throw(ErrorCode::kUnavailable, "switch to version {}: an engine may have been started again",
          goal);
  }
  keeper_.BeginCommit();
  co_await LoadAndProve(goal, paused_at, update);
  update->closed_ms = SecondsSince(closed_at) * 1000;  // the opening lets in all that wait
  keeper_.Open(goal);
  NoteServing(goal);
}

// From paused engines to engines that generate with the verified goal.
Task<void> Reconciler::LoadAndProve(VersionNumber goal, MonotonicTime paused_at, Update* update) {
  const std::string label = LabelOf(goal);
  {
    const Lap lap(&update->load_ms);
    update->changes_only = co_await LoadChangesTo(goal, *update);
    if (!update->changes_only) {
      writes_changes_ = false;
      co_await engines_.Load(stager_.checkpoint(), label);
    }
  }
  {
    const Lap lap(&update->flush_ms);
    co_await engines_.Flush();
  }
  {
    const Lap lap(&update->verify_ms);
    co_await engines_.Verify(label);
  }
  if (!update->changes_only && learns_ && options_.changes) {
    const Lap lap(&update->learn_ms);
    co_await Learn(goal);
  }
  if (keeper_.gate().state() == GateState::kCommitting) keeper_.Resume();
  {
    const Lap lap(&update->resume_ms);
    co_await engines_.Resume();
  }
  update->paused_ms = SecondsSince(paused_at) * 1000;
  const Lap lap(&update->canary_ms);
  const std::vector<std::optional<double>> canaries = co_await engines_.Canary();
  // Equal to the last bit, under other weights: no proof, for the change may be elsewhere.
  update->canary_unchanged =
      canaries_of_ != goal && canaries == canaries_ &&
      std::ranges::any_of(canaries, [](const auto& c) { return c.has_value(); });
  canaries_ = canaries;
  canaries_of_ = goal;
}

// While they generate. What goes wrong here LoadChangesTo finds again.
Task<void> Reconciler::PrepareChangesTo(VersionNumber goal) {
  const std::vector<engine::Changes> steps = StepsTo(goal);
  if (!writes_changes_ || steps.empty() || !Serving()) co_return;
  std::string problem;
  try {
    co_await engines_.PrepareChanges(steps.front());
  } catch (const Error& error) {
    problem = error.what();
  }
  if (!problem.empty()) events_.Write("prepare_failed", {{"version", goal}, {"error", problem}});
}

// Whether the engines hold the goal now, by changes of what they held. A failure leaves them with
// nobody knows what, and the full load that follows replaces all of it.
Task<bool> Reconciler::LoadChangesTo(VersionNumber goal, const Update& update) {
  const std::vector<engine::Changes> steps = StepsTo(goal);
  if (update.kind != UpdateKind::kSwitch || !writes_changes_ || steps.empty()) co_return false;
  std::string problem;
  try {
    co_await engines_.LoadChanges(steps);
    failed_changes_ = 0;
    co_return true;
  } catch (const Error& error) {
    problem = error.what();
  }
  if (++failed_changes_ >= kFailedChanges) learns_ = false;
  events_.Write("changes_failed", {{"version", goal}, {"error", problem}});
  co_await engines_.Settle();
  co_return false;
}

// Empty if what was kept does not lead there from the version served.
std::vector<engine::Changes> Reconciler::StepsTo(VersionNumber goal) const {
  std::vector<engine::Changes> steps;
  const std::vector<StagedChanges>& kept = stager_.changes();
  if (kept.empty() || kept.front().from != keeper_.gate().served() || kept.back().to != goal) {
    return steps;
  }
  for (const StagedChanges& step : kept) {
    steps.push_back({step.kept.file, step.kept.base.Hex(), LabelOf(step.to)});
  }
  return steps;
}

// After a full load, before the engines go on. What the engine refuses is said once; of an engine
// that does not answer nothing more of this kind is asked.
Task<void> Reconciler::Learn(VersionNumber version) {
  learns_ = false;
  const std::string digest = verified_digest_.Hex();
  const std::string refusal = co_await engines_.Learn(stager_.checkpoint(), digest);
  writes_changes_ = learns_ = refusal.empty();
  stager_.KeepChanges(writes_changes_);
  events_.Write("learned",
                {{"version", version}, {"writes_changes", writes_changes_}, {"reason", refusal}});
}

// Nothing was loaded: the engines go on with what they have, if they can be reached.
Task<void> Reconciler::GiveUp(const Error& error, VersionNumber goal) {
  if (keeper_.gate().state() != GateState::kClosing) {  // it was not even closed
    SetPhase(Phase::kReady, error.what());
    co_return;
  }
  std::string problem;
  try {
    co_await engines_.Settle();
    // Only after a pause that succeeded it is known what a resume ends.
    co_await engines_.Pause(abilities_->keeps ? engine::PauseMode::kKeep
                                              : engine::PauseMode::kAbort);
    co_await engines_.Resume();
    problem = ProblemWith(co_await engines_.Inspect()).value_or("");
  } catch (const Error& second) {
    problem = second.what();
  }
  if (!problem.empty()) co_return LoseEngines(problem);
  keeper_.Reopen();
  SetPhase(Phase::kReady, fmt::format("gave up version {}: {}", goal, error.what()));
  NoteServing(keeper_.gate().served());
}

// Booting or poisoned. One try to get to a verified version.
Task<void> Reconciler::Recover() {
  Update update = std::exchange(staging_, {});
  const bool poisoned = keeper_.gate().state() == GateState::kPoisoned;
  update.kind = poisoned ? UpdateKind::kReseed : UpdateKind::kBoot;
  SetPhase(poisoned ? Phase::kReseeding : Phase::kBooting, report_.reason);
  std::optional<Error> failure;
  co_await TakeEngines();
  try {
    co_await RecoverOnce(&update);
  } catch (const Error& error) {
    failure = error;
  }
  engines_taken_ = switching_ = false;
  if (!failure) {
    failed_recoveries_ = failed_loads_ = 0;
    SetPhase(Phase::kReady, "");
    next_look_ = MonotonicNow() + options_.inspect;
    next_read_ = MonotonicNow();
    if (!presence_.proven()) LookNow();
  } else if (!stopping_) {
    if (failure->what() != report_.reason) {
      events_.Write("recovery_failed", {{"error", failure->what()}});
    }
    SetPhase(poisoned ? Phase::kPoisoned : Phase::kBooting, failure->what());
    update.error = failure->what();
    const auto shift = std::min<size_t>(failed_recoveries_++, 16);
    retry_at_ =
        MonotonicNow() + std::min(options_.retry_max, options_.retry_min * (int64_t{1} << shift));
    if (RestartIsDue()) co_await RestartEngines();
  }
  if (!failure || update.load_ms > 0) Record(std::move(update));
  switched_.Fire();
}

Task<void> Reconciler::RecoverOnce(Update* update) {
  ++failed_probes_;  // until it has succeeded
  abilities_ = co_await engines_.Probe();
  failed_probes_ = 0;
  tells_pause_.clear();  // another program may be there
  writes_changes_ = false;
  learns_ = failed_changes_ < kFailedChanges;
  presence_.Forget();
  co_await presence_.Arm();
  restart_from_ = MonotonicTime::min();
  // Before the local checkpoint is touched: a load that nobody waits for any more may read it.
  ++failed_loads_;  // until it has succeeded
  co_await engines_.Settle();
  --failed_loads_;
  co_await ReadLog();
  if (update->kind == UpdateKind::kBoot && co_await Adopt(update)) co_return;
  if (update->kind == UpdateKind::kBoot) SetPhase(Phase::kCatchingUp, report_.reason);
  const VersionNumber goal = co_await StageForRecovery(update);
  update->to = goal;
  if (update->kind == UpdateKind::kReseed) {  // the engines are those that served before
    if (const std::string misfit = MisfitOf(goal); !misfit.empty()) {
      Throw(ErrorCode::kNotReady, "{}", misfit);
    }
  }
  if (stopping_)
    Throw(ErrorCode::kUnavailable, "load version {}: the sidecar was told to stop", goal);
  switching_ = true;
  co_await ReloadAll(goal, update);
}

// Whatever the engines hold and do: from here they are paused, loaded and proven anew.
Task<void> Reconciler::ReloadAll(VersionNumber goal, Update* update) {
  const Lap closed(&update->closed_ms);
  {
    const Lap lap(&update->drain_ms);
    co_await keeper_.Drained();
  }
  WriteJournal(kNoVersion, goal);
  ++failed_loads_;  // until it has succeeded
  const MonotonicTime paused_at = MonotonicNow();
  {
    const Lap lap(&update->pause_ms);
    co_await engines_.Pause(engine::PauseMode::kAbort);
  }
  std::optional<Error> failure;
  try {
    co_await LoadAndProve(goal, paused_at, update);
    SilenceOf(co_await engines_.Inspect());  // who says now that it generates, must go on to
    presence_.Prove();
  } catch (const Error& error) {
    failure = error;
  }
  if (failure) {
    NoteLoadFailure(goal);
    if (keeper_.gate().state() == GateState::kBooting) keeper_.Poison();
    throw Error(*failure);
  }
  keeper_.Open(goal);
  NoteServing(goal);
}

// The predecessor's engines, if the journal and they themselves say that they serve a version that
// may be served. Labels are set only after a load was proven, and a new engine has none of ours.
Task<bool> Reconciler::Adopt(Update* update) {
  const std::optional<SwitchRecord> record = journal_.Read();
  if (!record || record->serving == kNoVersion || record->run != options_.run) co_return false;
  std::vector<std::string> names;
  names.reserve(engines_.engines().size());
  for (const auto& engine : engines_.engines()) names.push_back(engine->name());
  const bool wrong_pin =
      options_.island_pin != kNoVersion && record->serving != options_.island_pin;
  if (record->engines != names || wrong_pin || revoked_.contains(record->serving)) {
    co_return false;
  }
  const std::string label = LabelOf(record->serving);
  const std::vector<engine::EngineState> states = co_await engines_.Inspect();
  SilenceOf(states);
  for (const engine::EngineState& state : states) {
    if (state.paused.value_or(true) || state.label != label) co_return false;
  }
  update->kind = UpdateKind::kAdoption;
  update->to = record->serving;
  served_layout_ = record->layout;
  co_await keeper_.Drained();
  presence_.Prove();
  keeper_.Open(record->serving);
  co_return true;
}

// The goal if it can be had, else what the local checkpoint holds.
Task<VersionNumber> Reconciler::StageForRecovery(Update* update) {
  const VersionNumber goal = Goal();
  const VersionNumber held = stager_.held();
  report_.target = goal;
  std::optional<Error> failure;
  try {
    if (goal != kNoVersion && report_.board_error.empty()) {
      AddStaged(co_await stager_.Stage(goal));
    } else if (goal == kNoVersion && !report_.unloadable.empty()) {
      report_.unloadable.clear();  // nothing else is left: from the beginning
      load_failures_.clear();
      failure.emplace(ErrorCode::kPoisoned, "every version failed to load");
    } else {
      failure.emplace(ErrorCode::kNotReady,
                      report_.board_error.empty()
                          ? fmt::format("run {} has no version that may be served", options_.run)
                          : report_.board_error);
    }
  } catch (const Error& error) {
    failure = error;
  }
  const bool usable = held != kNoVersion && stager_.held() == held && !revoked_.contains(held) &&
                      !report_.unloadable.contains(held) &&
                      (options_.island_pin == kNoVersion || options_.island_pin == held);
  if (failure && !usable) throw Error(*failure);
  if (failure) {
    events_.Write("falls_back", {{"version", held}, {"error", failure->what()}});
    AddStaged(co_await stager_.StageHeld());
  }
  Update staged = std::exchange(staging_, {});
  update->fetch_ms = staged.fetch_ms;
  update->apply_ms = staged.apply_ms;
  update->check_ms = staged.check_ms;
  update->stage_ms = staged.stage_ms;
  update->fetched_bytes = staged.fetched_bytes;
  co_return verified_;
}

// Loads that fail again and again, or engines that cannot be reached and have had the time to
// start.
bool Reconciler::RestartIsDue() {
  if (!restarter_ || stager_.held() == kNoVersion) return false;
  if (failed_probes_ > 0)
    return failed_probes_ >= options_.restart_after && MonotonicNow() >= restart_from_;
  return failed_loads_ >= options_.restart_after;
}

Task<void> Reconciler::RestartEngines() {
  events_.Write("restart", {{"with", restarter_->name()}});
  std::optional<Error> failure;
  try {
    co_await restarter_->Load(stager_.checkpoint(), LabelOf(stager_.held()));
  } catch (const Error& error) {
    failure = error;
  }
  if (failure) events_.Write("restart_failed", {{"error", failure->what()}});
  failed_loads_ = failed_probes_ = 0;
  served_layout_.clear();  // they start with what they are given
  retry_at_ = MonotonicNow();
  restart_from_ = MonotonicNow() + options_.start_limit;
}

void Reconciler::NoteLoadFailure(VersionNumber version) {
  if (++load_failures_[version] < options_.load_attempts) return;
  report_.unloadable.insert(version);
  events_.Write("unloadable", {{"version", version}});
}

void Reconciler::Record(Update update) {
  update.ended = SystemClock().Now();
  events_.Write(update.error.empty() ? "updated" : "update_failed", update.ToJson());
  if (on_update_) on_update_(update);
  report_.last_update = std::move(update);
}

void Reconciler::WriteJournal(VersionNumber serving, VersionNumber switching) {
  SwitchRecord record;
  record.run = options_.run;
  for (const auto& engine : engines_.engines()) record.engines.push_back(engine->name());
  record.serving = serving;
  record.switching = switching;
  record.layout = served_layout_;
  journal_.Write(std::move(record));
}

// A record that cannot be written costs the successor a reload, and the requests of now nothing.
void Reconciler::NoteServing(VersionNumber version) {
  load_failures_.erase(version);
  if (version == verified_) served_layout_ = verified_layout_;
  if (version == stager_.held()) stager_.ForgetChanges();
  try {
    WriteJournal(version, kNoVersion);
  } catch (const Error& error) {
    events_.Write("journal_failed", {{"error", error.what()}});
  }
}

}  // namespace isthmus::sidecar
