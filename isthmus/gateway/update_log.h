// The updates that islands told of (last_update of /server_info), each once, and medians over the
// islands of one target version. Bounded. What islands say is hostile. Pure; not thread-safe.
#ifndef ISTHMUS_GATEWAY_UPDATE_LOG_H_
#define ISTHMUS_GATEWAY_UPDATE_LOG_H_

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "isthmus/gateway/pool.h"
#include "isthmus/gateway/timelines.h"

namespace isthmus::gateway {

// Of "NAME_ms" in last_update (docs/request-lane.md), in the order in which answers give them.
inline constexpr std::array<std::string_view, 15> kPhases = {
    "fetch", "apply",  "check",  "stage",  "hold",   "drain", "pause", "load",
    "flush", "verify", "resume", "canary", "closed", "own",   "paused"};

struct UpdateLimits {
  size_t updates = 10'000;
  size_t listed = 200;    // in one answer
  size_t summaries = 60;  // in one answer
};

class UpdateLog {
 public:
  explicit UpdateLog(UpdateLimits limits) : limits_(limits) {}

  // Islands that are not among them are forgotten: what they tell when they are back counts as new.
  void Record(const std::vector<IslandFacts>& facts, Mark now);

  // The newest updates after `sequence` and from `from_ms` on, oldest first.
  std::string ToJson(uint64_t sequence, int64_t from_ms) const;
  // Of the newest pairs of run and target version since `from_ms`: those with an update after
  // `sequence`.
  std::string SummariesJson(uint64_t sequence, int64_t from_ms) const;

  size_t size() const { return updates_.size(); }

 private:
  struct Update {
    Mark seen;
    std::string id;
    std::string run;
    std::string kind;
    std::string error;
    VersionNumber from = kNoVersion;
    VersionNumber to = kNoVersion;
    bool ok = false;
    uint64_t fetched_bytes = 0;
    std::array<float, kPhases.size()> milliseconds{};
  };
  struct Told {
    uint64_t seen = 0;    // the last sequence in which the island was listed
    uint64_t update = 0;  // a digest of its update
  };
  struct Summary;

  static Update ReadUpdate(const IslandFacts& island, Mark now);
  static std::string SummaryJson(const Summary& summary);

  UpdateLimits limits_;
  std::unordered_map<std::string, Told> told_;
  std::deque<Update> updates_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_UPDATE_LOG_H_
