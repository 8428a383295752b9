#include "isthmus/sim/tally_json.h"

#include <boost/json/array.hpp>
#include <string_view>

namespace isthmus::sim {

namespace json = boost::json;

namespace {

constexpr std::string_view kSpentNames[kSpentKinds] = {"busy_s", "idle_s", "drain_s", "pause_s",
                                                       "down_s"};

json::object SpentJson(const SpentTimes& spent) {
  json::object object;
  for (size_t kind = 0; kind < kSpentKinds; ++kind) {
    object[kSpentNames[kind]] = ToSeconds(spent[kind]);
  }
  return object;
}

// counts[k]: so many had a lag of k versions.
json::object LagJson(const LagHistogram& lags) {
  json::array counts;
  for (uint64_t lag = 0; lag <= std::min(lags.largest(), LagHistogram::kMost); ++lag) {
    counts.push_back(lags.of(lag));
  }
  return {{"count", lags.count()},      {"mean", lags.mean()},       {"p50", lags.quantile(0.5)},
          {"p99", lags.quantile(0.99)}, {"largest", lags.largest()}, {"counts", std::move(counts)}};
}

json::array RegionsJson(const Tally& tally) {
  json::array regions;
  for (const RegionTally& region : tally.regions) {
    regions.push_back({{"name", region.name},
                       {"islands", region.islands},
                       {"link_bytes", region.link_bytes},
                       {"relay_bytes", region.relay_bytes},
                       {"planned_bytes", region.planned_bytes},
                       {"spent", SpentJson(region.spent)}});
  }
  return regions;
}

}  // namespace

json::object ToJson(const Tally& tally) {
  const double hours = ToSeconds(tally.simulated) / 3'600;
  const auto hourly = [hours](double count) { return hours == 0 ? 0 : count / hours; };
  return {
      {"simulated_s", ToSeconds(tally.simulated)},
      {"islands", tally.islands},
      {"events", tally.events},
      {"decisions", tally.decisions},
      {"rollouts", tally.rollouts},
      {"rollouts_per_hour", hourly(static_cast<double>(tally.rollouts))},
      {"stale_rollouts", tally.stale_rollouts},
      {"tokens", tally.tokens},
      {"tokens_per_hour", hourly(tally.tokens)},
      {"wasted_tokens", tally.wasted_tokens},
      {"token_share", tally.token_capacity == 0 ? 0 : tally.tokens / tally.token_capacity},
      {"requests",
       {{"sent", tally.requests},
        {"served", tally.served},
        {"retried", tally.retried},
        {"refused", tally.refused},
        {"failed", tally.failed},
        {"aborted", tally.aborted},
        {"lost", tally.lost}}},
      {"versions", tally.versions},
      {"published_bytes", tally.published_bytes},
      {"trainer_waited_s", tally.train_wait_s},
      {"switches", tally.switches},
      {"kills", tally.kills},
      {"lag_start", LagJson(tally.lag_start)},
      {"lag_end", LagJson(tally.lag_end)},
      {"age", LagJson(tally.age)},
      {"spent", SpentJson(tally.spent())},
      {"regions", RegionsJson(tally)},
  };
}

}  // namespace isthmus::sim
