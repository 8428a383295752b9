// The instants at which an island's engines changed version, so that what a request produced can be
// attributed. Pure; not thread-safe; holds the last kMaxChanges.
#ifndef ISTHMUS_SIDECAR_COMMIT_LOG_H_
#define ISTHMUS_SIDECAR_COMMIT_LOG_H_

#include <cstddef>
#include <deque>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/board/manifest.h"

namespace isthmus::sidecar {

// The engines generated nothing between `paused` and `resumed`. So a token received before
// `resumed` is of `from` or older; one generated after it is of `to` or newer. What is received
// after `resumed` may still be of `from`, if it was on its way since before `paused`.
struct VersionChange {
  board::VersionNumber from = board::kNoVersion;
  board::VersionNumber to = board::kNoVersion;
  MonotonicTime paused;
  MonotonicTime resumed;

  bool operator==(const VersionChange&) const = default;
};

class CommitLog {
 public:
  // A request that is in flight across more switches than this has an incomplete record.
  static constexpr size_t kMaxChanges = 1'000;

  struct Record {
    std::vector<VersionChange> changes;  // oldest first
    // False if older changes than these are forgotten: what came before `changes` is of any version
    // from the request's first to changes.front().from.
    bool complete = true;

    bool operator==(const Record&) const = default;
  };

  // Instants never decrease from one change to the next. O(1).
  void Add(const VersionChange& change);
  // How many changes there were: a place in the log.
  size_t count() const { return forgotten_ + changes_.size(); }
  // The changes since count() was `place`. O(size of the result).
  Record Since(size_t place) const;

 private:
  std::deque<VersionChange> changes_;
  size_t forgotten_ = 0;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_COMMIT_LOG_H_
