// The rules of docs/request-lane.md once more, with plain lists and loops: slow, and easy to check
// against the text by eye.
#ifndef ISTHMUS_TESTS_SUPPORT_GATE_ORACLE_H_
#define ISTHMUS_TESTS_SUPPORT_GATE_ORACLE_H_

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/sidecar/gate.h"

namespace isthmus::sidecar {

class GateOracle {
 public:
  using Decisions = std::vector<Decision>;

  explicit GateOracle(GateOptions options) : options_(std::move(options)) {}

  struct Live {
    RequestId id = 0;
    Request request;
    bool waiting = false;
    std::optional<MonotonicTime> own_deadline;
    // Waiting: why, until when, and for which version if it is for one.
    Reason reason = Reason::kNone;
    MonotonicTime deadline;
    VersionNumber need = kNoVersion;
    // In flight.
    VersionNumber exact = kNoVersion;
    bool aborted = false;
    Stamp stamp;
  };
  struct Session {
    std::string name;
    VersionNumber version = kNoVersion;
    MonotonicTime bound;
    MonotonicTime lease_end;
    int turns = 0;
  };

  // As the gate's calls of these names; May… says whether the gate allows them. What the gate does
  // not allow must not be called. `End` is Boot, Poison or Stop.
  Decision Arrive(const Request& request, MonotonicTime now);
  bool Withdraw(RequestId id);
  Stamp Finish(RequestId id, MonotonicTime now);
  Decisions Advance(MonotonicTime now);
  Decisions Learn(VersionNumber head, MonotonicTime now);
  Decisions Revoke(VersionNumber version, MonotonicTime now);
  bool MayPrepare(VersionNumber version) const;
  MonotonicTime Prepare(VersionNumber version, MonotonicTime now);
  bool MayClose(VersionNumber version, MonotonicTime now) const;
  Decisions Close(DrainPolicy policy, VersionNumber version, MonotonicTime now);
  Decisions Reopen(MonotonicTime now);
  bool MayBeginCommit() const { return state == GateState::kClosing && leaving() == 0; }
  void BeginCommit(MonotonicTime now);
  bool MayResume() const { return state == GateState::kCommitting && paused_.has_value(); }
  void Resume(MonotonicTime now);
  bool MayOpen(VersionNumber version) const;
  Decisions Open(VersionNumber version, MonotonicTime now);
  Decisions End(GateState to, Reason reason, MonotonicTime now);

  size_t waiting() const {
    return static_cast<size_t>(std::ranges::count(lives, true, &Live::waiting));
  }
  size_t in_flight() const { return lives.size() - waiting(); }
  size_t leaving() const;
  std::optional<MonotonicTime> NextDeadline() const;
  VersionNumber WantedExactly() const;
  bool IsRevoked(VersionNumber version) const;

  GateState state = GateState::kBooting;
  VersionNumber served = kNoVersion;
  VersionNumber target = kNoVersion;
  std::vector<Live> lives;  // in order of arrival
  std::vector<VersionNumber> revoked;

 private:
  Decision Decide(Live* l, MonotonicTime now);
  Decisions Release(bool opened, MonotonicTime now);
  Reason Shortfall(const Constraint& c, VersionNumber version, MonotonicTime now) const;
  bool IsFresh(const Constraint& c, VersionNumber version, MonotonicTime now) const;
  Decision Full(RequestId id, Reason reason) const;
  bool Possible(VersionNumber version) const;
  bool MustLeave(const Live& l) const;
  template <typename Which>
  void AbortIf(const Which& which, Reason reason, Decisions* decisions) {
    for (Live& l : lives) {
      if (l.waiting || l.aborted || !which(l)) continue;
      l.aborted = true;
      decisions->push_back({l.id, Outcome::kAborted, reason, served});
    }
  }
  std::optional<MonotonicTime> DrainDeadline() const;
  Session* FindSession(const std::string& name);
  // The one to give up for another: idle, its lease ended, the earliest first.
  std::vector<Session>::iterator Ended(MonotonicTime now);
  void Renew(Session* session, MonotonicTime now) const;
  void BeginTurn(const std::string& name, MonotonicTime now);
  MonotonicTime FreeAt(VersionNumber version) const;
  VersionNumber Newest() const;

  GateOptions options_;
  RequestId last_id_ = 0;
  std::vector<Session> sessions_;
  std::vector<std::pair<VersionNumber, MonotonicTime>> readings_;
  DrainPolicy policy_ = DrainPolicy::kInPlace;
  MonotonicTime closed_deadline_;
  std::optional<MonotonicTime> drain_deadline_, hold_since_, paused_;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_TESTS_SUPPORT_GATE_ORACLE_H_
