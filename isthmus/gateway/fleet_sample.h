// One sample of each run of a fleet: how many islands serve what, in which state, how far behind.
// Pure.
#ifndef ISTHMUS_GATEWAY_FLEET_SAMPLE_H_
#define ISTHMUS_GATEWAY_FLEET_SAMPLE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/gateway/pool.h"
#include "isthmus/gateway/snapshot.h"

namespace isthmus::gateway {

inline constexpr size_t kSampledRuns = 16;
inline constexpr size_t kSampledVersions = 12;
inline constexpr size_t kIslandStates = 6;

// In versions, over the islands that get requests; nearest rank.
struct LagSample {
  uint64_t p50 = 0;
  uint64_t p95 = 0;
  uint64_t max = 0;

  auto operator<=>(const LagSample&) const = default;
};

struct RunSample {
  std::string run;
  VersionNumber newest = kNoVersion;
  uint32_t serving = 0;  // islands that get requests
  // Newest first: those that most of them serve, at most kSampledVersions.
  std::vector<std::pair<VersionNumber, uint32_t>> versions;
  uint32_t others = 0;                           // serve another version
  std::array<uint32_t, kIslandStates> states{};  // by IslandState
  std::optional<LagSample> lag;                  // nullopt: nobody serves
};

// What requests get at this island now; kNoVersion if it gets none.
VersionNumber ServedNow(const IslandFacts& island);

// The runs with most islands, at most kSampledRuns, by their names' order in `runs`.
std::vector<RunSample> SampleRuns(const std::vector<IslandFacts>& facts,
                                  const std::vector<RunView>& runs);

// Takes the highest of both for p95 and max of the lag.
void KeepHighestLag(const std::vector<RunSample>& earlier, std::vector<RunSample>* later);

std::string ToJson(const RunSample& sample);

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_FLEET_SAMPLE_H_
