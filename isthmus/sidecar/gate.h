// The gate of an island: which requests are admitted at which version, which wait, and what must
// end before the version is switched. Normative rules: docs/request-lane.md.
//
// Pure: no I/O, no clock, no thread, no callback. Whoever owns it passes the time in, carries out
// the decisions that calls return, and calls Advance no later than next_deadline(). Admission and
// the served version are read in one call, so a decision is never about a version that has just
// changed.
//
// Not thread-safe: the owner serialises all calls, const ones too. An earlier `now` than one given
// before counts as that one. For n requests and sessions, calls are O(log n), and O(k log n) where
// they decide about k or return k changes; Close, Boot, Poison, Stop and a drain limit that passes
// also look at every request in flight once. Memory is bounded by GateOptions: a few hundred bytes
// for each request.
//
// A call that its section does not allow in the current state throws kInternal and changes nothing.
//
//               Close          BeginCommit           Open
//   ready(v) ──────────▶ closing ────────▶ committing ────▶ ready(w)
//      ▲    ◀──────────     │                  │
//      │        Reopen      └───────┬──────────┘
//      │ Open                       ▼
//   booting, poisoned  ◀── Boot, Poison: from every state but stopped
//
// Stop leads from every state to stopped, for good.
#ifndef ISTHMUS_SIDECAR_GATE_H_
#define ISTHMUS_SIDECAR_GATE_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/lane/decision.h"
#include "isthmus/lane/request.h"
#include "isthmus/sidecar/board_view.h"
#include "isthmus/sidecar/commit_log.h"
#include "isthmus/sidecar/sessions.h"
#include "isthmus/sidecar/waiting_line.h"

namespace isthmus::sidecar {

enum class GateState { kBooting, kReady, kClosing, kCommitting, kPoisoned, kStopped };
std::string_view GateStateName(GateState state);  // "booting", "ready", …

// What happens to requests in flight when the version is switched.
enum class DrainPolicy {
  kInPlace,  // those go on that the next version satisfies too, all others finish first
  kDrain,    // all finish first
  kAbort,    // all are aborted
};

struct GateOptions {
  std::string run;
  VersionNumber island_pin = kNoVersion;  // the only version that is ever served, if set
  size_t max_waiting = 10'000;            // ten times what an island of one engine runs at once
  size_t max_in_flight = 100'000;
  // How long after Close waiting for the opening makes sense: longer than any good switch.
  milliseconds closed_limit = std::chrono::minutes(2);
  // How long after Close, or Stop, what must end may go on. Then it is aborted.
  milliseconds drain_limit = std::chrono::minutes(10);
  // How long leases of sessions may keep an island from the next version.
  milliseconds hold_limit = std::chrono::minutes(10);
  SessionLimits sessions;
};

// What a response says about the versions that produced it.
struct Stamp {
  VersionNumber start = kNoVersion;
  VersionNumber end = kNoVersion;
  CommitLog::Record record;  // what changed between them

  bool operator==(const Stamp&) const = default;
};

class Gate {
 public:
  using Decisions = std::vector<Decision>;

  // Booting. kInvalid for a bad run name, a pin above kMaxVersion, a duration that is negative or
  // above a year.
  explicit Gate(GateOptions options);

  // REQUESTS, in every state.

  // A new request: admitted, waiting or refused. kInvalid (sidecar::Check) if it is malformed.
  Decision Arrive(const Request& request, MonotonicTime now);
  // The client of a waiting request is gone: nothing more is decided about it. False, and no
  // change, if it does not wait, for example because it was just admitted.
  bool Withdraw(RequestId request);
  // A request in flight has ended, however it did. kInternal if it is not in flight.
  Stamp Finish(RequestId request, MonotonicTime now);
  // What Finish would return if it ended now, for a stream that says so while it goes on.
  Stamp StampOf(RequestId request) const;
  // Refuses waiting requests whose deadlines have passed, and aborts what has outlived the drain
  // limit. Deadlines have no effect but here: until then a request can still be admitted.
  Decisions Advance(MonotonicTime now);
  // When Advance has something to do; nullopt: not before another call is made.
  std::optional<MonotonicTime> next_deadline() const;

  // THE BOARD, in every state.

  // The run's log was read at `now`, and `head` is its newest version. Also when nothing is new:
  // lags in time count from here. Admits waiting requests whose lag in time is satisfied again.
  Decisions Learn(VersionNumber head, MonotonicTime now);
  // Nothing is admitted at this version any more, leases on it are void, waiting requests for
  // exactly it are refused. Requests in flight go on. kUnavailable beyond BoardView::kMaxRevoked.
  Decisions Revoke(VersionNumber version, MonotonicTime now);

  // SWITCHING VERSIONS.

  // ready. The owner has staged `target` and would like to switch. Returns from when on Close will
  // do: not before the leases on the served version end, nor later than hold_limit after the first
  // such call since Open. A session's next turn may move it, up to that limit: ask again then.
  MonotonicTime Prepare(VersionNumber target, MonotonicTime now);
  // ready → closing, for `target`: an unrevoked version, the island's pin if it has one, and not
  // while leases hold. From here on nothing is admitted. Aborts those in flight if the policy says
  // so.
  Decisions Close(DrainPolicy policy, VersionNumber target, MonotonicTime now);
  // How many requests in flight must end (Finish) before the next step: BeginCommit after Close,
  // Open after Boot and Poison, the end of the process after Stop. O(1).
  size_t leaving() const;
  // closing → ready, at the version served before: the switch is given up, nothing was loaded.
  Decisions Reopen(MonotonicTime now);
  // closing → committing, once leaving() is 0. The engines confirmed that they are paused.
  void BeginCommit(MonotonicTime now);
  // committing, once: the engines hold the target, verified, and are about to generate again, for
  // example for a canary. What ends from here on ends at the target.
  void Resume(MonotonicTime now);
  // committing → ready at `version`, which must be Close's target; implies Resume.
  // booting, poisoned → ready, once leaving() is 0: the engines hold a verified `version`.
  // Admits in order of arrival all waiting requests that `version` satisfies.
  Decisions Open(VersionNumber version, MonotonicTime now);

  // THE ENGINES FAIL, or the island ends. Waiting requests are refused.

  // Any state but stopped → booting: the engines are gone, or are started anew. Aborts all in
  // flight.
  Decisions Boot(MonotonicTime now);
  // Any state but stopped → poisoned: what the engines hold is unknown. Aborts all in flight.
  Decisions Poison(MonotonicTime now);
  // Any state → stopped. What is in flight goes on up to the drain limit; aborted at once if the
  // engines are in the middle of a commit.
  Decisions Stop(MonotonicTime now);

  GateState state() const { return state_; }
  // The version that requests were last admitted at; kNoVersion while booting and poisoned.
  VersionNumber served() const { return served_; }
  // The version of tokens that are generated now, as far as is known: StampOf(any).end.
  VersionNumber generating() const { return generating_; }
  // The version of Close until the next Open, Reopen or failure; else kNoVersion.
  VersionNumber target() const { return target_; }
  // The lowest version above the served one that a waiting request asks for exactly; kNoVersion if
  // none. An owner that goes straight to the newest version passes it by.
  VersionNumber WantedExactly() const { return line_.LowestExactAbove(served_); }
  const BoardView& board() const { return board_; }
  size_t waiting() const { return line_.size(); }
  size_t in_flight() const { return in_flight_.size(); }

 private:
  struct InFlight {
    VersionNumber min = kNoVersion;
    VersionNumber exact = kNoVersion;  // its own, or its session's
    VersionNumber start = kNoVersion;
    size_t log_place = 0;
    std::string session;  // that it holds a turn of
    bool aborted = false;
  };
  struct Verdict {
    Outcome outcome = Outcome::kAdmitted;
    Reason reason = Reason::kNone;
    Place place;  // of kWaiting
  };

  MonotonicTime Tick(MonotonicTime now);
  void Require(bool allowed, std::string_view call) const;
  bool Possible(VersionNumber version) const;
  MonotonicTime FreeAt(VersionNumber target) const;

  Verdict Judge(const Waiter& waiter, MonotonicTime now) const;
  Verdict JudgeAgainst(const Constraint& constraint, const Waiter& waiter, MonotonicTime now) const;
  Verdict JudgeRoom(const Request& request, MonotonicTime now) const;
  Verdict WaitForOpening(const Waiter& waiter) const;
  Reason Shortfall(const Constraint& constraint, VersionNumber version, MonotonicTime now) const;
  Decision Settle(RequestId id, const Request& request, const Verdict& verdict, MonotonicTime now);
  void Admit(RequestId id, const Request& request, MonotonicTime now);

  Decisions Release(bool opened, MonotonicTime now);
  void Refuse(const std::vector<RequestId>& ids, Outcome outcome, Reason reason, Decisions* out);
  bool MustLeave(const InFlight& request) const;
  void Abort(bool all, Reason reason, Decisions* out);
  Decisions Shut(GateState state, Reason reason);

  GateOptions options_;
  GateState state_ = GateState::kBooting;
  MonotonicTime now_ = MonotonicTime::min();
  RequestId last_id_ = 0;

  BoardView board_;
  Sessions sessions_;
  WaitingLine line_;
  std::map<RequestId, InFlight> in_flight_;
  CommitLog log_;

  VersionNumber served_ = kNoVersion;
  VersionNumber generating_ = kNoVersion;  // what a token of now is of, as far as is known
  std::optional<MonotonicTime> hold_since_;

  // Of the switch that is under way.
  VersionNumber target_ = kNoVersion;
  DrainPolicy policy_ = DrainPolicy::kInPlace;
  size_t leaving_ = 0;
  MonotonicTime closed_deadline_;
  std::optional<MonotonicTime> drain_deadline_;
  std::optional<MonotonicTime> paused_;  // between BeginCommit and Resume
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_GATE_H_
