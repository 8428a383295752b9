// What an island knows of its run's log: the newest version, how far another one is behind it, and
// which versions are revoked. Pure; not thread-safe. Sizes are bounded: kMaxConfirmed, kMaxRevoked.
#ifndef ISTHMUS_SIDECAR_BOARD_VIEW_H_
#define ISTHMUS_SIDECAR_BOARD_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "isthmus/base/clock.h"
#include "isthmus/board/manifest.h"

namespace isthmus::sidecar {

class BoardView {
 public:
  // A revocation is an operator's act: more than this many are a mistake or an attack.
  static constexpr size_t kMaxRevoked = 10'000;
  // More heads than an island passes between two switches.
  static constexpr size_t kMaxConfirmed = 1'000;
  static constexpr uint64_t kUnknownLag = std::numeric_limits<uint64_t>::max();
  static constexpr MonotonicTime::duration kUnknownTimeLag = MonotonicTime::duration::max();

  // The log was read at `at` and ended at `head`. An older head than the one known is a stale
  // reading and is ignored: the log only grows. O(log n).
  void Learn(board::VersionNumber head, MonotonicTime at);
  // O(log n), and O(r) where the newest r versions are all revoked. kUnavailable beyond
  // kMaxRevoked; revoking twice is the same as once.
  void Revoke(board::VersionNumber version);

  bool revoked(board::VersionNumber version) const { return revoked_.contains(version); }
  // The newest version that is not revoked; kNoVersion if none is known. O(1).
  board::VersionNumber newest() const { return newest_; }

  // How many versions newest() is ahead of `version`; kUnknownLag before the first Learn. O(1).
  uint64_t Lag(board::VersionNumber version) const;
  // The time since the log was last seen to end at `version` or an older one, or at nothing but
  // revoked ones behind it: an upper bound of how long a newer version has existed, also while the
  // board cannot be reached. kUnknownTimeLag if the log was never seen so. O(log n).
  MonotonicTime::duration TimeLag(board::VersionNumber version, MonotonicTime now) const;

  // `version` is served now: forgets what only older versions' lag in time needs. They are
  // kUnknownTimeLag from here on. Amortised O(1).
  void ForgetBefore(board::VersionNumber version);

 private:
  // When the log was last seen to end at each head.
  std::map<board::VersionNumber, MonotonicTime> confirmed_;
  std::set<board::VersionNumber> revoked_;
  board::VersionNumber newest_ = board::kNoVersion;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_BOARD_VIEW_H_
