#include "isthmus/sidecar/commit_log.h"

#include <algorithm>

namespace isthmus::sidecar {

void CommitLog::Add(const VersionChange& change) {
  changes_.push_back(change);
  if (changes_.size() <= kMaxChanges) return;
  changes_.pop_front();
  ++forgotten_;
}

CommitLog::Record CommitLog::Since(size_t place) const {
  const size_t kept = std::max(place, forgotten_) - forgotten_;
  return {{changes_.begin() + static_cast<std::ptrdiff_t>(kept), changes_.end()},
          place >= forgotten_};
}

}  // namespace isthmus::sidecar
