// Keeps an island's engines at the version that they should serve: follows the board, stages,
// switches, and recovers when a switch failed, an engine died or the sidecar itself was restarted.
#ifndef ISTHMUS_SIDECAR_RECONCILER_H_
#define ISTHMUS_SIDECAR_RECONCILER_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "isthmus/engine/engine.h"
#include "isthmus/net/task.h"
#include "isthmus/net/wakeup.h"
#include "isthmus/net/within.h"
#include "isthmus/observe/event_log.h"
#include "isthmus/sidecar/engine_group.h"
#include "isthmus/sidecar/gate_keeper.h"
#include "isthmus/sidecar/presence.h"
#include "isthmus/sidecar/stager.h"
#include "isthmus/sidecar/switch_journal.h"
#include "isthmus/sidecar/update.h"

namespace isthmus::sidecar {

//  booting ──▶ catching-up ──▶ ready ◀──▶ staging ──▶ committing ──▶ ready
//     ▲                          │                        │
//     └── an engine is gone ─────┘                        └──▶ poisoned ──▶ reseeding ──▶ ready
enum class Phase {
  kBooting,     // engines are not known to be up
  kCatchingUp,  // engines are up; a verified version is brought and loaded
  kReady,
  kStaging,     // serves, and brings the next version to the local checkpoint
  kCommitting,  // the gate is closed
  kPoisoned,    // a load failed: waits for the next try
  kReseeding,   // a full load of a verified version after that
  kStopped,
};
std::string_view PhaseName(Phase phase);  // "booting", "catching-up", …

struct ReconcilerOptions {
  std::string run;
  VersionNumber island_pin = kNoVersion;
  DrainPolicy policy = DrainPolicy::kInPlace;
  milliseconds poll{2'000};     // between readings of the log
  milliseconds nudge{100};      // at least between readings for waiting requests
  milliseconds inspect{1'000};  // between looks at the engines
  milliseconds retry_min{250};  // after a failed recovery, doubled up to retry_max
  milliseconds retry_max{15'000};
  // Engines that can write changes into their weights do so; else all load whole checkpoints.
  bool changes = true;
  size_t load_attempts = 2;           // of one version; then it is passed by
  size_t restart_after = 2;           // failed loads, or probes, in a row
  milliseconds start_limit{600'000};  // that engines may take to come up
};

// What is known of the island, for those who ask.
struct IslandReport {
  Phase phase = Phase::kBooting;
  VersionNumber target = kNoVersion;  // the version it should serve
  VersionNumber head = kNoVersion;    // of the log, when last read
  std::string reason;                 // why it is not ready, or what was wrong last
  std::string board_error;            // empty: the last reading of the log succeeded
  std::optional<WallTime> board_read;
  std::optional<Update> last_update;
  std::set<VersionNumber> unloadable;
};

// Used on its loop's thread only.
class Reconciler {
 public:
  using OnUpdate = std::function<void(const Update&)>;

  // `restarter` (may be null) is an engine of kind "command": its Load restarts the island's
  // engines. All references must outlive this.
  Reconciler(net::Loop& loop, ReconcilerOptions options, GateKeeper& keeper, EngineGroup& engines,
             Presence& presence, Stager& stager, SwitchJournal journal, observe::EventLog& events,
             std::unique_ptr<engine::Engine> restarter);
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;

  void set_on_update(OnUpdate on_update) { on_update_ = std::move(on_update); }

  // Called when the phase or its reason may have changed.
  void set_on_change(std::function<void()> on_change) { on_change_ = std::move(on_change); }

  // Works until Stop. One at a time.
  net::Task<void> Run();
  // Begins nothing new; ends when no switch is under way.
  net::Task<void> Stop();

  // Somebody knows of a new version: reads the log now.
  void Wake();
  // A request waits for a version that is not served: reads the log soon, but no more often than
  // every ReconcilerOptions::nudge, however many wait.
  void Nudge();
  // Somebody could not reach an engine, or got nonsense: looks at the engines now.
  void Suspect();

  const IslandReport& report() const { return report_; }
  // nullopt before the engines were reached.
  const std::optional<engine::Abilities>& abilities() const { return abilities_; }
  // The next switch writes changes only, if they are kept.
  bool writes_changes() const { return writes_changes_; }

 private:
  // reconciler.cc: following the board.
  net::Task<void> Rest(net::SteadyTimer* timer, MonotonicTime until) const;
  bool Serving() const;
  net::Task<void> Work();
  void Abandon();
  net::Task<void> Tick();
  net::Task<void> ReadLog();
  net::Task<void> Follow();
  net::Task<bool> StageGoal(VersionNumber* goal);
  std::string MisfitOf(VersionNumber goal);
  VersionNumber Goal() const;
  void SetPhase(Phase phase, std::string reason);

  // reconciler_watch.cc: looking at the engines while they serve.
  net::Task<void> Watch();
  net::Task<void> TakeEngines();
  net::Task<void> LookAtEngines();
  void LookNow();
  std::string SilenceOf(const std::vector<engine::EngineState>& states);
  std::optional<std::string> ProblemWith(const std::vector<engine::EngineState>& states) const;
  void LoseEngines(const std::string& reason);

  // reconciler_switch.cc: switching and recovering.
  net::Task<void> Switch(VersionNumber goal);
  net::Task<void> GiveUp(const Error& error, VersionNumber goal);
  net::Task<void> Commit(VersionNumber goal, MonotonicTime closed_at, Update* update);
  net::Task<void> LoadAndProve(VersionNumber goal, MonotonicTime paused_at, Update* update);
  net::Task<void> PrepareChangesTo(VersionNumber goal);
  net::Task<bool> LoadChangesTo(VersionNumber goal, const Update& update);
  std::vector<engine::Changes> StepsTo(VersionNumber goal) const;
  net::Task<void> Learn(VersionNumber version);
  net::Task<void> Recover();
  net::Task<void> RecoverOnce(Update* update);
  net::Task<bool> Adopt(Update* update);
  net::Task<VersionNumber> StageForRecovery(Update* update);
  net::Task<void> ReloadAll(VersionNumber goal, Update* update);
  bool RestartIsDue();
  net::Task<void> RestartEngines();
  void NoteLoadFailure(VersionNumber version);
  void Record(Update update);
  void WriteJournal(VersionNumber serving, VersionNumber switching);
  void NoteServing(VersionNumber version);
  void AddStaged(const Staged& staged);

  net::Loop& loop_;
  ReconcilerOptions options_;
  GateKeeper& keeper_;
  EngineGroup& engines_;
  Presence& presence_;
  Stager& stager_;
  SwitchJournal journal_;
  observe::EventLog& events_;
  std::unique_ptr<engine::Engine> restarter_;
  OnUpdate on_update_;
  std::function<void()> on_change_;

  net::SteadyTimer timer_;
  net::SteadyTimer watch_timer_;
  bool looking_ = false;        // the watch is calling the engines
  bool engines_taken_ = false;  // a switch or a recovery is
  net::Wakeup looked_;
  std::vector<bool> tells_pause_;
  MonotonicTime read_at_;
  MonotonicTime next_read_;
  MonotonicTime next_look_;
  MonotonicTime looked_at_;
  MonotonicTime retry_at_;
  std::optional<MonotonicTime> hold_until_;
  std::optional<MonotonicTime> hold_began_;
  bool stopping_ = false;
  bool switching_ = false;
  net::Wakeup switched_;

  IslandReport report_;
  std::optional<engine::Abilities> abilities_;
  std::set<VersionNumber> revoked_;
  std::map<VersionNumber, size_t> load_failures_;
  size_t failed_recoveries_ = 0;
  size_t failed_loads_ = 0;     // in a row, of any version
  size_t failed_probes_ = 0;    // in a row
  MonotonicTime restart_from_;  // engines that are starting are left alone until then
  size_t failed_looks_ = 0;
  bool writes_changes_ = false;          // all engines have learned
  bool learns_ = true;                   // they can, as far as is known
  size_t failed_changes_ = 0;            // in a row
  VersionNumber verified_ = kNoVersion;  // that this process has staged
  Sha256Digest verified_digest_;
  std::string verified_layout_, served_layout_;
  std::vector<std::optional<double>> canaries_;  // of the last load that got so far
  VersionNumber canaries_of_ = kNoVersion;
  Update staging_;  // what the next switch has cost so far
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_RECONCILER_H_
