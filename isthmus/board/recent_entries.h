// Log entries that were read or written a moment ago: an entry never changes, so it need not be
// asked for twice.
#ifndef ISTHMUS_BOARD_RECENT_ENTRIES_H_
#define ISTHMUS_BOARD_RECENT_ENTRIES_H_

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "isthmus/board/manifest.h"

namespace isthmus::board {

// The last few, by key. Thread-safe.
class RecentEntries {
 public:
  std::optional<Manifest> Find(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find(entries_, key, &Entry::first);
    if (at == entries_.end()) return std::nullopt;
    return at->second;
  }

  void Keep(const std::string& key, const Manifest& manifest) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(entries_, key, &Entry::first) != entries_.end()) return;
    entries_.emplace_back(key, manifest);
    if (entries_.size() > kMostEntries) entries_.pop_front();
  }

 private:
  using Entry = std::pair<std::string, Manifest>;
  // What a publish or a step of a follower comes back to: the head, the next one, what is held.
  static constexpr size_t kMostEntries = 4;

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
};

}  // namespace isthmus::board

#endif  // ISTHMUS_BOARD_RECENT_ENTRIES_H_
