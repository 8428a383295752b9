// What a bounded cache holds and what it gives up for something new. Pure: names and sizes only.
#ifndef ISTHMUS_RELAY_CACHE_INDEX_H_
#define ISTHMUS_RELAY_CACHE_INDEX_H_

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

namespace isthmus::relay {

// Least recently used first out, but never what is pinned. All bytes count: those of entries and
// those that are reserved for what is being written. Not thread-safe.
class CacheIndex {
 public:
  explicit CacheIndex(uint64_t limit_bytes) : limit_(limit_bytes) {}

  // A smaller limit removes nothing before the next Reserve.
  void set_limit(uint64_t limit_bytes) { limit_ = limit_bytes; }

  // Sets so many bytes aside, and removes what must go for them: the names are appended to
  // `evicted`. False, and nothing is removed, if all that is not pinned is too little.
  bool Reserve(uint64_t bytes, std::vector<std::string>* evicted);
  // Gives bytes that were reserved back.
  void Release(uint64_t bytes) { reserved_ -= bytes; }
  // Reserved bytes become an entry, the most recently used. `name` must be new.
  void Commit(const std::string& name, uint64_t bytes);

  bool Contains(const std::string& name) const { return entries_.contains(name); }
  // Marks an entry, which must exist, as just used, and keeps it until Unpin.
  void Pin(const std::string& name);
  // Of an entry that was removed meanwhile too.
  void Unpin(const std::string& name);
  // Forgets an entry, pinned or not, if there is one.
  void Remove(const std::string& name);

  uint64_t used_bytes() const { return reserved_ + held_; }
  size_t size() const { return entries_.size(); }
  uint64_t evictions() const { return evictions_; }
  // From the least recently used on.
  std::vector<std::string> names() const { return {order_.begin(), order_.end()}; }

 private:
  struct Entry {
    uint64_t bytes;
    std::list<std::string>::iterator place;
  };

  uint64_t PinnedBytes() const;

  uint64_t limit_;
  uint64_t reserved_ = 0, held_ = 0, evictions_ = 0;
  std::list<std::string> order_;  // most recently used last
  std::unordered_map<std::string, Entry> entries_;
  std::unordered_map<std::string, uint64_t> pins_;
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_CACHE_INDEX_H_
