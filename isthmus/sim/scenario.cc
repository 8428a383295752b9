#include "isthmus/sim/scenario.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cmath>

#include "isthmus/base/error.h"
#include "isthmus/sim/fields.h"

namespace isthmus::sim {
namespace {

constexpr double kGigabit = 1e9 / 8;
constexpr double kMaxGbit = 1e6;
constexpr double kMaxBytes = 1e15;
constexpr double kMaxSeconds = 365.0 * 86'400;
constexpr double kMaxTokens = 1e9;

// Bits that a changed weight takes in a patch, by the density: docs/benchmarks.md, BF16.
struct BitsAtDensity {
  double density;
  double bits;
};
constexpr BitsAtDensity kBitsPerChange[] = {{0.0010, 9.04}, {0.0015, 8.66}, {0.0035, 7.89},
                                            {0.0100, 7.01}, {0.0198, 6.46}, {0.0396, 5.89}};

// Between two rows straight over the logarithm of the density; beyond the ends by what a change
// costs at least, its place: one bit for each halving of the density.
double BitsPerChange(double density) {
  const auto* const first = std::begin(kBitsPerChange);
  const auto* const last = std::end(kBitsPerChange) - 1;
  if (density < first->density) return first->bits + std::log2(first->density / density);
  if (density >= last->density) return last->bits;
  const auto* const above =
      std::ranges::upper_bound(kBitsPerChange, density, {}, &BitsAtDensity::density);
  const auto* const below = above - 1;
  const double part =
      std::log(density / below->density) / std::log(above->density / below->density);
  return below->bits + part * (above->bits - below->bits);
}

// 0 in the file is no limit.
double Rate(Fields& fields, std::string_view key, double otherwise_gbit) {
  const double gbit = fields.Number(key, 0, kMaxGbit, otherwise_gbit);
  return gbit == 0 ? kNoLimit : gbit * kGigabit;
}

ModelFacts ReadModel(Fields fields) {
  ModelFacts model;
  model.checkpoint_bytes = fields.Number("checkpoint_bytes", 1, kMaxBytes);
  model.weight_bytes = fields.Number("weight_bytes", 0.25, 8, model.weight_bytes);
  model.density = fields.Number("density", 0, 1, 0);
  model.patch_bytes = fields.Number("patch_bytes", 0, kMaxBytes, 0);
  if (model.density > 0 && model.patch_bytes > 0) {
    fields.Refuse("patch_bytes", "given beside density, allowed is one of them");
  }
  model.diff_bytes_per_s = fields.Number("diff_bytes_per_s", 1, kNoLimit, 2e9);
  model.apply_bytes_per_s = fields.Number("apply_bytes_per_s", 1, kNoLimit, 4e9);
  fields.End();
  return model;
}

EngineFacts ReadEngine(Fields fields) {
  EngineFacts engine;
  engine.tokens_per_s = fields.Number("tokens_per_s", 1e-3, kMaxTokens);
  engine.request_tokens_per_s =
      fields.Number("request_tokens_per_s", 1e-3, kMaxTokens, engine.tokens_per_s);
  engine.slots = fields.Count("slots", 1, 100'000);
  engine.pause_s = fields.Number("pause_s", 0, kMaxSeconds);
  engine.load_s = fields.Number("load_s", 0, kMaxSeconds);
  engine.canary_s = fields.Number("canary_s", 0, kMaxSeconds, 0);
  fields.End();
  return engine;
}

SpotFacts ReadSpot(Fields fields) {
  SpotFacts spot;
  spot.kills_per_island_hour = fields.Number("kills_per_island_hour", 0, 3'600);
  spot.notice_s = fields.Number("notice_s", 0, 3'600, 0);
  spot.boot_s = fields.Number("boot_s", 1, kMaxSeconds);
  fields.End();
  return spot;
}

RegionFacts ReadRegion(Fields fields, const RegionFacts& common, bool has_engine) {
  RegionFacts region = common;
  region.name = fields.Text("name", 64);
  region.islands = fields.Count("islands", 0, kMaxIslands);
  region.link_bytes_per_s = Rate(fields, "link_gbit_s", 0);
  region.latency_s = fields.Number("latency_ms", 0, 60'000, 0) / 1000;
  region.relay = fields.Flag("relay", false);
  region.relay_bytes_per_s = Rate(fields, "relay_gbit_s", 0);
  region.island_bytes_per_s = Rate(fields, "island_gbit_s", 0);
  if (!has_engine || fields.Has("engine")) region.engine = ReadEngine(fields.Object("engine"));
  if (fields.Has("spot")) region.spot = ReadSpot(fields.Object("spot"));
  fields.End();
  return region;
}

TrainerFacts ReadTrainer(Fields fields, double hours) {
  TrainerFacts trainer;
  trainer.mode = static_cast<TrainerMode>(
      fields.Choice("mode", {"cadence", "synchronous", "one_step_off", "asynchronous"}));
  trainer.step_s = fields.Number("step_s", 0, kMaxSeconds);
  if (trainer.mode != TrainerMode::kCadence) {
    trainer.batch = fields.Count("batch", 1, kMaxInFlight);
    if (trainer.step_s == 0) fields.Refuse("step_s", "found 0, allowed only with mode cadence");
  }
  if (trainer.step_s > 0 && hours * 3'600 / trainer.step_s > static_cast<double>(kMaxVersions)) {
    fields.Refuse("step_s", fmt::format("found {}: more than {} versions in {} hours",
                                        trainer.step_s, kMaxVersions, hours));
  }
  trainer.in_flight = fields.Count("in_flight", 0, kMaxInFlight);
  if (trainer.mode == TrainerMode::kAsynchronous) {
    trainer.max_lag = fields.Count("max_lag", 0, 1'000);
  }
  trainer.anchor_every = fields.Count("anchor_every", 0, kMaxVersions, 0);
  trainer.skip_every = fields.Count("skip_every", 0, 1'000, 0);
  fields.End();
  return trainer;
}

RolloutFacts ReadRollouts(Fields fields) {
  RolloutFacts rollouts;
  rollouts.mean_tokens = fields.Number("mean_tokens", 1, kMaxTokens);
  rollouts.sigma = fields.Number("sigma", 0, 3, 0);
  rollouts.max_tokens = fields.Number("max_tokens", 1, kMaxTokens, kMaxTokens);
  rollouts.turns = fields.Count("turns", 1, 10'000, 1);
  rollouts.between_turns_s = fields.Number("between_turns_s", 0, kMaxSeconds, 0);
  fields.End();
  return rollouts;
}

PolicyFacts ReadPolicy(Fields fields) {
  PolicyFacts policy;
  policy.drain =
      static_cast<sidecar::DrainPolicy>(fields.Choice("drain", {"in_place", "drain", "abort"}, 0));
  policy.drain_limit_s = fields.Number("drain_limit_s", 0, kMaxSeconds, policy.drain_limit_s);
  policy.wait_s = fields.Number("wait_s", 0, 3'600, policy.wait_s);
  policy.retry_s = fields.Number("retry_s", 0.01, kMaxSeconds, policy.retry_s);
  if (fields.Has("max_lag")) {
    policy.max_lag = static_cast<int64_t>(fields.Count("max_lag", 0, kMaxVersions));
  }
  policy.island_in_flight = fields.Count("island_in_flight", 1, 100'000, policy.island_in_flight);
  policy.attempts = fields.Count("attempts", 1, 16, policy.attempts);
  policy.poll_s = fields.Number("poll_s", 0.001, kMaxSeconds, policy.poll_s);
  fields.End();
  return policy;
}

boost::json::value Parse(std::string_view text) {
  if (text.size() > kMaxScenarioBytes) {
    Throw(ErrorCode::kInvalid, "scenario: {} bytes, allowed are {}", text.size(),
          kMaxScenarioBytes);
  }
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(text, error);
  if (error) Throw(ErrorCode::kInvalid, "scenario: not JSON: {}", error.message());
  return value;
}

}  // namespace

uint64_t Scenario::islands() const {
  uint64_t sum = 0;
  for (const RegionFacts& region : regions) sum += region.islands;
  return sum;
}

double PatchBytes(const ModelFacts& model, uint64_t steps) {
  double bytes = model.patch_bytes * static_cast<double>(steps);
  if (model.density > 0) {
    // Weights that at least one of the steps changes, if steps choose them independently.
    const double density = 1 - std::pow(1 - model.density, static_cast<double>(steps));
    bytes = model.checkpoint_bytes / model.weight_bytes * density * BitsPerChange(density) / 8;
  }
  return std::min(std::ceil(bytes), model.checkpoint_bytes);
}

Scenario ReadScenario(std::string_view text, std::optional<double> hours) {
  const boost::json::value document = Parse(text);
  Fields fields(document, "");
  Scenario scenario;
  scenario.comment = fields.Text("comment", 4'096, "");
  scenario.hours = fields.Number("hours", 0, kMaxHours);
  if (hours) scenario.hours = *hours;
  const bool within = scenario.hours >= 0 && scenario.hours <= kMaxHours;  // not so for NaN
  if (!within) {
    Throw(ErrorCode::kInvalid, "hours: found {}, allowed are numbers from 0 to {}", scenario.hours,
          kMaxHours);
  }
  scenario.seed = fields.Count("seed", 0, UINT64_MAX, 1);
  scenario.model = ReadModel(fields.Object("model"));
  scenario.trainer = ReadTrainer(fields.Object("trainer"), scenario.hours);
  scenario.rollouts = ReadRollouts(fields.Object("rollouts"));
  if (fields.Has("policy")) scenario.policy = ReadPolicy(fields.Object("policy"));
  RegionFacts common;
  const bool has_engine = fields.Has("engine");
  if (has_engine) common.engine = ReadEngine(fields.Object("engine"));
  if (fields.Has("spot")) common.spot = ReadSpot(fields.Object("spot"));
  scenario.egress_bytes_per_s = Rate(fields, "origin_egress_gbit_s", 0);
  scenario.upload_bytes_per_s = Rate(fields, "origin_upload_gbit_s", 0);
  for (Fields& region : fields.Objects("regions", kMaxRegions)) {
    scenario.regions.push_back(ReadRegion(region, common, has_engine));
  }
  fields.End();
  if (scenario.islands() > kMaxIslands) {
    Throw(ErrorCode::kInvalid, "regions: {} islands, allowed are {}", scenario.islands(),
          kMaxIslands);
  }
  return scenario;
}

}  // namespace isthmus::sim
