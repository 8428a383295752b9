// Which version each island served over time, as lists of changes. Bounded. Pure; not thread-safe.
#ifndef ISTHMUS_GATEWAY_TIMELINES_H_
#define ISTHMUS_GATEWAY_TIMELINES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "isthmus/gateway/pool.h"

namespace isthmus::gateway {

// Where and when something was recorded: a number that grows with each sample, and milliseconds
// since 1970.
struct Mark {
  uint64_t sequence = 0;
  int64_t time_ms = 0;
};

struct TimelineLimits {
  size_t islands = 20'000;
  size_t changes = 500'000;            // of all islands
  size_t island_changes = 256;         // of one
  int64_t remembered_ms = 86'400'000;  // of islands that are not listed any more
};

class Timelines {
 public:
  explicit Timelines(TimelineLimits limits) : limits_(limits) {}

  // What all islands serve now; those that are not among them serve nothing from now on.
  void Record(const std::vector<IslandFacts>& facts, Mark now);
  // Changes after `sequence`, and later than `from_ms` with the one before: what was served then.
  std::string ToJson(uint64_t sequence, int64_t from_ms) const;

  size_t size() const { return islands_.size(); }

 private:
  struct Change {
    Mark mark;
    VersionNumber version = kNoVersion;
  };
  struct Island {
    std::string run;
    uint64_t seen = 0;  // the last sequence in which it was listed
    std::vector<Change> changes;
  };

  void Add(Island* island, VersionNumber version, Mark now) const;
  void EndUnlisted(Mark now);
  void Forget(Mark now);
  size_t ChangeLimit() const;

  TimelineLimits limits_;
  std::unordered_map<std::string, Island> islands_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_TIMELINES_H_
