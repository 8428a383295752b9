// What is simulated: the values of a scenario file (docs/simulate.md).
#ifndef ISTHMUS_SIM_SCENARIO_H_
#define ISTHMUS_SIM_SCENARIO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/sidecar/gate.h"

namespace isthmus::sim {

inline constexpr size_t kMaxScenarioBytes = size_t{1} << 20;
inline constexpr size_t kMaxRegions = 256;
inline constexpr size_t kMaxIslands = 20'000;
inline constexpr uint64_t kMaxInFlight = 1'000'000;
inline constexpr double kMaxHours = 24 * 366;
inline constexpr double kNoLimit = 1e18;  // bytes a second
// Each has an entry on the board.
inline constexpr uint64_t kMaxVersions = 100'000;

enum class TrainerMode {
  kCadence,       // a version every step_s, whatever is rolled out
  kSynchronous,   // a batch at a time, all of it of the newest version
  kOneStepOff,    // while a batch is trained on, the next one is rolled out
  kAsynchronous,  // what ends first is trained on first, up to max_lag versions old
};

struct ModelFacts {
  double checkpoint_bytes = 0;
  double weight_bytes = 2;  // of one weight
  double density = 0;       // weights that a step changes, of all
  double patch_bytes = 0;   // of a step's patch; 0: by the density
  double diff_bytes_per_s = 2e9;
  double apply_bytes_per_s = 4e9;
};

struct EngineFacts {
  double tokens_per_s = 0;          // at most, all requests together
  double request_tokens_per_s = 0;  // at most, one request
  uint64_t slots = 0;               // requests that it runs at once
  double pause_s = 0;
  double load_s = 0;    // loading, flushing, verifying, resuming
  double canary_s = 0;  // then, with the gate still closed
};

struct SpotFacts {
  double kills_per_island_hour = 0;
  double notice_s = 0;
  double boot_s = 0;  // from the kill to the sidecar's start on another machine
};

struct RegionFacts {
  std::string name;
  uint64_t islands = 0;
  double link_bytes_per_s = kNoLimit;  // from the origin
  double latency_s = 0;                // one way, to the gateway and to the origin
  bool relay = false;
  double relay_bytes_per_s = kNoLimit;   // what the relay gives all its islands
  double island_bytes_per_s = kNoLimit;  // what an island takes
  EngineFacts engine;
  SpotFacts spot;
};

struct TrainerFacts {
  TrainerMode mode = TrainerMode::kCadence;
  double step_s =
      0;  // kCadence: from version to version, 0: there are none; else training on a batch
  uint64_t batch = 0;         // rollouts a step; not kCadence
  uint64_t in_flight = 0;     // rollouts at once, at most
  uint64_t max_lag = 0;       // kAsynchronous
  uint64_t anchor_every = 0;  // versions; 0: the first only
  uint64_t skip_every = 0;    // versions between those that have a skip patch; 0: none has
};

struct RolloutFacts {
  double mean_tokens = 0;  // of a turn
  double sigma = 0;        // of the logarithm; 0: all alike
  double max_tokens = 0;
  uint64_t turns = 1;  // of a session; 1: no sessions
  double between_turns_s = 0;
};

struct PolicyFacts {
  sidecar::DrainPolicy drain = sidecar::DrainPolicy::kInPlace;
  double drain_limit_s = 600;
  double wait_s = 600;
  double retry_s = 1;    // after a refusal, until the client asks again
  int64_t max_lag = -1;  // versions, at admission; below 0: any
  uint64_t island_in_flight = 256;
  uint64_t attempts = 4;
  double poll_s = 2;
};

struct Scenario {
  std::string comment;
  double hours = 0;
  uint64_t seed = 1;
  // Every version is published as a whole checkpoint, and nothing else.
  bool full_checkpoints = false;
  ModelFacts model;
  TrainerFacts trainer;
  RolloutFacts rollouts;
  PolicyFacts policy;
  double egress_bytes_per_s = kNoLimit;  // of the origin, all regions together
  double upload_bytes_per_s = kNoLimit;  // from the publisher to the origin
  std::vector<RegionFacts> regions;

  uint64_t islands() const;
};

// The bytes of a patch over so many steps: by the bits that a change takes (docs/benchmarks.md,
// "Bits per change"), or patch_bytes a step; never more than the checkpoint.
double PatchBytes(const ModelFacts& model, uint64_t steps);

// kInvalid, naming the field, what it was and what is allowed: no JSON, unknown or missing
// fields, wrong types, values out of range, sizes above the limits of this file. `hours`
// takes the place of the scenario's.
Scenario ReadScenario(std::string_view text, std::optional<double> hours = std::nullopt);

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_SCENARIO_H_
