// How far behind the newest version answers are: at their admission and at their end, by run and by
// session. Pure; not thread-safe.
#ifndef ISTHMUS_GATEWAY_STALENESS_H_
#define ISTHMUS_GATEWAY_STALENESS_H_

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "isthmus/gateway/snapshot.h"

namespace isthmus::gateway {

// Versions that `version` is behind `newest`; 0 if it is not.
constexpr uint64_t LagOf(VersionNumber version, VersionNumber newest) {
  return newest > version ? newest - version : 0;
}

// Counts of lags in versions: 0, 1, 2, to 3, to 5, to 8, to 16, to 32, to 128, above.
struct LagHistogram {
  static constexpr std::array<uint64_t, 9> kBounds = {0, 1, 2, 3, 5, 8, 16, 32, 128};

  std::array<uint64_t, kBounds.size() + 1> counts{};
  uint64_t sum = 0;

  static size_t BucketOf(uint64_t lag);
  void Add(uint64_t lag) {
    ++counts[BucketOf(lag)];
    sum += lag;
  }
  void Take(uint64_t lag) {
    --counts[BucketOf(lag)];
    sum -= lag;
  }
};

struct RunStaleness {
  LagHistogram start;
  LagHistogram end;
  // Sessions, each once, by the largest lag at an end that any of its turns has had; those of the
  // last Staleness::kMaxSessions that were named.
  LagHistogram sessions;
};

class Staleness {
 public:
  static constexpr size_t kMaxSessions = 100'000;
  // Runs beyond are counted as the run "other": whoever names runs must not fill the memory.
  static constexpr size_t kMaxRuns = 64;

  void Observe(std::string_view run, std::string_view session, uint64_t lag_start,
               uint64_t lag_end);
  const std::map<std::string, RunStaleness, std::less<>>& runs() const { return runs_; }

 private:
  struct Session {
    std::string name;
    RunStaleness* run;
    uint64_t worst;
  };

  RunStaleness& Run(std::string_view run);
  void ObserveSession(RunStaleness& run, std::string name, uint64_t lag);

  std::map<std::string, RunStaleness, std::less<>> runs_;
  std::list<Session> recent_;  // the one named last is in front
  std::unordered_map<std::string_view, std::list<Session>::iterator> sessions_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_STALENESS_H_
