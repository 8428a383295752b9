// Where the lines of recent rollouts are, by id, in bounded memory. No I/O. Not thread-safe.
#ifndef ISTHMUS_GATEWAY_ROLLOUT_INDEX_H_
#define ISTHMUS_GATEWAY_ROLLOUT_INDEX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/gateway/segment.h"

namespace isthmus::gateway {

// Lines that were written one after another: a file of the spool, later an object.
struct Segment {
  std::string stem;
  fs::path file;
  fs::path ids_file;
  uint64_t bytes = 0;
  uint64_t lines = 0;
  std::optional<SegmentObject> object;  // once it is uploaded; its `lines` are empty
};

// The ids of the oldest segments are forgotten first, each segment's all at once.
class RolloutIndex {
 public:
  // What an id costs, about: a node of a hash table, its bucket, and its place in a list.
  static constexpr uint64_t kIdBytes = 80;
  static constexpr uint64_t kSegmentBytes = 1'024;

  struct Entry {
    std::shared_ptr<Segment> segment;
    LinePlace place;
  };

  explicit RolloutIndex(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // A segment, newer than all before; its number.
  uint32_t AddSegment(std::shared_ptr<Segment> segment);
  // A line of it, newer than all of its id before. Ignored if the segment is forgotten.
  void AddLine(uint32_t segment, const LinePlace& place);

  std::optional<Entry> Find(std::string_view id) const;
  bool Knows(const Segment& segment) const;
  uint64_t ids() const { return places_.size(); }

  // Forgets the oldest segments as long as all takes more than the limit; those that it forgot.
  std::vector<std::shared_ptr<Segment>> Trim();

 private:
  struct Place {
    uint64_t offset = 0;
    uint32_t bytes = 0;
    uint32_t segment = 0;
  };
  struct Known {
    std::shared_ptr<Segment> segment;
    std::vector<uint64_t> ids;  // hashes
  };

  void Forget(uint32_t number, const Known& known);

  uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  uint32_t next_ = 0;
  std::map<uint32_t, Known> segments_;          // by number
  std::unordered_map<uint64_t, Place> places_;  // by the id's hash
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_ROLLOUT_INDEX_H_
