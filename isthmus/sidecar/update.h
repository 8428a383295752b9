// One change of the version that an island's engines hold, and where its time went.
#ifndef ISTHMUS_SIDECAR_UPDATE_H_
#define ISTHMUS_SIDECAR_UPDATE_H_

#include <boost/json/object.hpp>
#include <string>

#include "isthmus/base/clock.h"
#include "isthmus/sidecar/stager.h"

namespace isthmus::sidecar {

enum class UpdateKind {
  kSwitch,   // from one served version to another
  kBoot,     // the first load after a start of the sidecar or of an engine
  kReseed,   // a full load after a failed one
  kAdoption  // the engines held the version already; nothing was loaded
};
std::string_view UpdateKindName(UpdateKind kind);  // "switch", …

// Times in milliseconds. What was not reached is 0.
struct Update {
  UpdateKind kind = UpdateKind::kSwitch;
  board::VersionNumber from = board::kNoVersion;
  board::VersionNumber to = board::kNoVersion;
  WallTime ended{};
  std::string error;  // empty: it succeeded

  // While the engines served.
  double fetch_ms = 0;
  double apply_ms = 0;
  double check_ms = 0;  // digests of what no patch touched
  double stage_ms = 0;  // all of it
  uint64_t fetched_bytes = 0;
  double hold_ms = 0;  // for leases of sessions

  // With the gate closed.
  double drain_ms = 0;
  double pause_ms = 0;
  double load_ms = 0;
  double flush_ms = 0;
  double verify_ms = 0;
  double learn_ms = 0;  // to write changes later
  double resume_ms = 0;
  double canary_ms = 0;
  double closed_ms = 0;  // from the closing of the gate to its opening
  double paused_ms = 0;  // from the call of pause to the end of resume: no token in between

  // Only changes were written; else a whole checkpoint was loaded.
  bool changes_only = false;
  // The canary's log-probability is what it was at the version loaded before: a sign that the load
  // changed nothing.
  bool canary_unchanged = false;

  // The part of closed_ms that is neither requests that end nor the engines' own calls.
  double own_ms() const;
  boost::json::object ToJson() const;
};

// Adds the time from its construction to its destruction.
class Lap {
 public:
  explicit Lap(double* sum_ms) : milliseconds_(sum_ms), begun_(SystemClock().Monotonic()) {}
  ~Lap() { *milliseconds_ += SecondsSince(begun_) * 1000; }
  Lap(const Lap&) = delete;
  Lap& operator=(const Lap&) = delete;

 private:
  double* milliseconds_;
  MonotonicTime begun_;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_UPDATE_H_
