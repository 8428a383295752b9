// The requests that wait, found by what they wait for. Pure; not thread-safe. Decides nothing: the
// gate does. Unless said otherwise every operation is O(log n), and O(k log n) for k results.
#ifndef ISTHMUS_SIDECAR_WAITING_LINE_H_
#define ISTHMUS_SIDECAR_WAITING_LINE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/lane/decision.h"
#include "isthmus/lane/request.h"

namespace isthmus::sidecar {

using board::kNoVersion;
using board::VersionNumber;
using lane::Constraint;
using lane::Decision;
using lane::Outcome;
using lane::Reason;
using lane::Request;
using lane::RequestId;
using std::chrono::milliseconds;

// What must happen before a waiting request is looked at again. `key` says when.
enum class WaitsFor {
  kOpening,  // the gate opens; no key
  kVersion,  // a version of at least key is served
  kLag,      // the served version is at most key versions behind
  kTimeLag,  // the served version is at most key milliseconds behind
};

struct Place {
  WaitsFor what = WaitsFor::kOpening;
  uint64_t key = 0;
  MonotonicTime deadline;
  Reason reason = Reason::kNone;  // what to say when the deadline passes
};

struct Waiter {
  Request request;
  std::optional<MonotonicTime> own_deadline;  // from the request's wait_ms
};

// What has happened.
struct Situation {
  bool opened = false;
  VersionNumber served = kNoVersion;
  uint64_t lag = 0;
  MonotonicTime::duration time_lag{};
};

class WaitingLine {
 public:
  void Add(RequestId id, Waiter waiter, const Place& place);
  // The request waits for something else from here on.
  void Move(RequestId id, const Place& place);
  // Removes the request; false if it does not wait.
  bool Remove(RequestId id);

  // The request must wait. The reference lives until it is removed.
  const Waiter& At(RequestId id) const { return waiting_.at(id).first; }
  const Place& PlaceOf(RequestId id) const { return waiting_.at(id).second; }

  // In order of arrival: those to look at again, all, those that ask for `version` exactly.
  std::vector<RequestId> Due(const Situation& situation) const;
  std::vector<RequestId> All() const;
  std::vector<RequestId> AskingFor(VersionNumber version) const;
  // In order of their deadlines, then of arrival: those whose deadline is not after `now`.
  std::vector<RequestId> Expired(MonotonicTime now) const;

  std::optional<MonotonicTime> next_deadline() const;
  // The lowest version above `version` that is asked for exactly; kNoVersion if there is none.
  VersionNumber LowestExactAbove(VersionNumber version) const;
  size_t size() const { return waiting_.size(); }

 private:
  using Cause = std::tuple<WaitsFor, uint64_t, RequestId>;

  void Index(RequestId id, const Place& place);
  void Unindex(RequestId id, const Place& place);

  std::map<RequestId, std::pair<Waiter, Place>> waiting_;
  std::set<Cause> by_cause_;
  std::set<std::pair<MonotonicTime, RequestId>> by_deadline_;
  std::set<std::pair<VersionNumber, RequestId>> by_exact_;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_WAITING_LINE_H_
