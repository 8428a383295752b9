// The gate at work: on a loop, with the machine's clock, and with coroutines that wait at it.
#ifndef ISTHMUS_SIDECAR_GATE_KEEPER_H_
#define ISTHMUS_SIDECAR_GATE_KEEPER_H_

#include <functional>
#include <memory>
#include <unordered_map>

#include "isthmus/net/task.h"
#include "isthmus/net/wakeup.h"
#include "isthmus/net/within.h"
#include "isthmus/sidecar/gate.h"

namespace isthmus::sidecar {

class Admission;

// Owns a Gate. Used on its loop's thread only; must outlive all coroutines that wait here and all
// Admissions. What the gate decides is carried out inside the call that made it decide: the
// coroutines of requests that are let in or sent away run before that call returns.
class GateKeeper {
 public:
  GateKeeper(net::Loop& loop, GateOptions options);
  GateKeeper(const GateKeeper&) = delete;
  GateKeeper& operator=(const GateKeeper&) = delete;

  const Gate& gate() const { return gate_; }

  // Waits as long as the gate lets the request wait. The answer is a request that is in flight, or
  // the refusal. kInvalid for a malformed request. Cancelled: the request is withdrawn.
  net::Task<Admission> Admit(Request request);

  // Called whenever a request begins to wait.
  void set_on_waiting(std::function<void()> on_waiting) { on_waiting_ = std::move(on_waiting); }

  // Called when the gate's state or what it serves may have changed.
  void set_on_change(std::function<void()> on_change) { on_change_ = std::move(on_change); }

  // Returns when no request in flight must end before the next step.
  net::Task<void> Drained();

  // The gate's own calls, at the time of now, with their decisions carried out.
  void Learn(VersionNumber head);
  void Revoke(VersionNumber version);
  MonotonicTime Prepare(VersionNumber target);
  void Close(DrainPolicy policy, VersionNumber target);
  void Reopen();
  void BeginCommit();
  void Resume();
  void Open(VersionNumber version);
  void Boot();
  void Poison();
  void Stop();

 private:
  friend class Admission;
  // A request that waits, and later is in flight. Its coroutine owns it.
  struct Place {
    Decision decision;
    net::Wakeup decided;
    bool aborted = false;
    std::function<void()> on_abort;
  };
  class Visit;

  void CarryOut(const Gate::Decisions& decisions);
  void Change(const Gate::Decisions& decisions);
  void Schedule();
  Stamp Finish(RequestId request);

  Gate gate_;
  net::SteadyTimer timer_;
  std::optional<MonotonicTime> scheduled_;
  std::unordered_map<RequestId, Place*> places_;
  net::Wakeup drained_;
  std::function<void()> on_waiting_;
  std::function<void()> on_change_;
};

// What the gate said about a request. If it is in flight, it stays so until Finish or the
// destructor.
class Admission {
 public:
  Admission(Admission&&) noexcept = default;
  Admission& operator=(Admission&&) = delete;
  ~Admission();

  bool admitted() const { return decision_.outcome == Outcome::kAdmitted; }
  // kAdmitted, kNotReady, kRevoked or kUnavailable.
  const Decision& decision() const { return decision_; }

  // The rest is for admitted requests.

  // `end` is called once, inside the gate's call, when the gate wants the request ended; at once if
  // it does already. It must not throw.
  void OnAbort(std::function<void()> end);
  bool aborted() const { return place_->aborted; }
  // The versions up to now; after Finish, of its end.
  Stamp stamp() const;
  // stamp().end, at the price of a load.
  VersionNumber last_version() const { return final_ ? final_->end : keeper_->gate_.generating(); }
  // It has ended on the engine. Again: nothing.
  void Finish();

 private:
  friend class GateKeeper;
  Admission(GateKeeper* keeper, const Decision& decision, std::unique_ptr<GateKeeper::Place> place)
      : keeper_(keeper), decision_(decision), place_(std::move(place)) {}

  GateKeeper* keeper_;
  Decision decision_;
  std::unique_ptr<GateKeeper::Place> place_;  // in flight as long as it is known to the keeper
  std::optional<Stamp> final_;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_GATE_KEEPER_H_
