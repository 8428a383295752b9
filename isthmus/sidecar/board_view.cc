#include "isthmus/sidecar/board_view.h"

#include <algorithm>
#include <iterator>

#include "isthmus/base/error.h"

namespace isthmus::sidecar {

using board::VersionNumber;

void BoardView::Learn(VersionNumber head, MonotonicTime at) {
  if (!confirmed_.empty() && head < confirmed_.rbegin()->first) return;
  confirmed_[head] = at;
  // Without a head in the middle, versions behind it count from an older one: their lag in time is
  // overstated, never understated.
  if (confirmed_.size() > kMaxConfirmed) confirmed_.erase(std::next(confirmed_.begin()));
  newest_ = head;
  while (revoked_.contains(newest_)) --newest_;
}

void BoardView::Revoke(VersionNumber version) {
  if (!revoked_.contains(version) && revoked_.size() == kMaxRevoked) {
    Throw(ErrorCode::kUnavailable, "revoke version {}: {} versions are revoked, allowed are {}",
          version, revoked_.size(), kMaxRevoked);
  }
  revoked_.insert(version);
  while (revoked_.contains(newest_)) --newest_;
}

uint64_t BoardView::Lag(VersionNumber version) const {
  if (confirmed_.empty()) return kUnknownLag;
  return newest_ - std::min(version, newest_);
}

MonotonicTime::duration BoardView::TimeLag(VersionNumber version, MonotonicTime now) const {
  if (confirmed_.empty()) return kUnknownTimeLag;
  if (version >= newest_) return now - confirmed_.rbegin()->second;
  const auto newer = confirmed_.upper_bound(version);
  if (newer == confirmed_.begin()) return kUnknownTimeLag;
  return now - std::prev(newer)->second;
}

void BoardView::ForgetBefore(VersionNumber version) {
  const auto newer = confirmed_.upper_bound(version);
  if (newer == confirmed_.begin()) return;
  confirmed_.erase(confirmed_.begin(), std::prev(newer));
}

}  // namespace isthmus::sidecar
