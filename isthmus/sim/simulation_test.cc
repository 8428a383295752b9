// The whole fleet: laws that hold in every scenario, and scenarios whose outcome is known.
#include "isthmus/sim/simulation.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <numeric>

#include "isthmus/sim/tally_json.h"

namespace isthmus::sim {
namespace {

Scenario Small() {
  Scenario scenario;
  scenario.hours = 1;
  scenario.model.checkpoint_bytes = 1e9;
  scenario.model.patch_bytes = 1e7;
  scenario.trainer.step_s = 60;
  scenario.trainer.in_flight = 40;
  scenario.rollouts.mean_tokens = 500;
  scenario.rollouts.sigma = 0.5;
  scenario.rollouts.max_tokens = 4'000;
  RegionFacts region;
  region.name = "a";
  region.islands = 4;
  region.link_bytes_per_s = 1e8;
  region.latency_s = 0.01;
  region.engine = {
      .tokens_per_s = 500, .request_tokens_per_s = 100, .slots = 8, .pause_s = 0.2, .load_s = 1.5};
  scenario.regions = {region, region};
  scenario.regions[1].name = "b";
  scenario.regions[1].latency_s = 0.08;
  scenario.regions[1].relay = true;
  return scenario;
}

Scenario InMode(TrainerMode mode) {
  Scenario scenario = Small();
  scenario.trainer.mode = mode;
  if (mode != TrainerMode::kCadence) scenario.trainer.batch = 64;
  if (mode == TrainerMode::kAsynchronous) scenario.trainer.max_lag = 2;
  return scenario;
}

void AddKills(Scenario* scenario) {
  for (RegionFacts& region : scenario->regions) {
    region.spot = {.kills_per_island_hour = 6, .notice_s = 10, .boot_s = 40};
  }
  scenario->trainer.anchor_every = 10;
  scenario->trainer.skip_every = 4;
}

std::vector<Scenario> Scenarios() {
  std::vector<Scenario> all;
  for (const TrainerMode mode : {TrainerMode::kCadence, TrainerMode::kSynchronous,
                                 TrainerMode::kOneStepOff, TrainerMode::kAsynchronous}) {
    for (const auto drain : {sidecar::DrainPolicy::kInPlace, sidecar::DrainPolicy::kDrain,
                             sidecar::DrainPolicy::kAbort}) {
      for (const bool kills : {false, true}) {
        Scenario scenario = InMode(mode);
        scenario.policy.drain = drain;
        scenario.rollouts.turns = kills ? 3 : 1;
        scenario.full_checkpoints = drain == sidecar::DrainPolicy::kAbort;
        scenario.egress_bytes_per_s = kills ? 1.2e8 : kNoLimit;
        if (kills) AddKills(&scenario);
        all.push_back(scenario);
      }
    }
  }
  return all;
}

class EveryScenario : public testing::TestWithParam<Scenario> {};

TEST_P(EveryScenario, IsDeterministic) {
  const auto run = [](const Scenario& scenario) {
    return boost::json::serialize(ToJson(Simulation(scenario).Run()));
  };
  Scenario scenario = GetParam();
  const std::string first = run(scenario);
  EXPECT_EQ(first, run(scenario));
  scenario.seed = 2;
  EXPECT_NE(first, run(scenario));
}

TEST_P(EveryScenario, EveryInstantOfEveryIslandIsCountedOnce) {
  Simulation simulation(GetParam());
  const Tally& tally = simulation.Run();
  for (const RegionTally& region : tally.regions) {
    const SimTime sum = std::accumulate(region.spent.begin(), region.spent.end(), SimTime{0});
    EXPECT_EQ(sum, tally.simulated * static_cast<SimTime>(region.islands));
  }
}

TEST_P(EveryScenario, NoRequestIsServedByAVersionThatDoesNotSatisfyIt) {
  Simulation simulation(GetParam());
  const Tally& tally = simulation.Run();
  EXPECT_EQ(simulation.gateway().unsatisfied(), 0);
  EXPECT_GT(tally.served, 0);
  if (GetParam().trainer.mode == TrainerMode::kSynchronous) {
    // All of a batch is of the version that it was begun for, and that one is the newest until the
    // batch has ended.
    EXPECT_EQ(tally.age.largest(), 0);
  }
  if (GetParam().trainer.mode == TrainerMode::kOneStepOff) {
    EXPECT_LE(tally.age.largest(), 1);
  }
}

TEST_P(EveryScenario, NoRolloutIsLostOrTwiceThere) {
  Simulation simulation(GetParam());
  const Tally& tally = simulation.Run();
  EXPECT_EQ(tally.age.count(), tally.rollouts);
  EXPECT_EQ(tally.lag_end.count(), tally.served);
  EXPECT_GE(tally.served, tally.rollouts * GetParam().rollouts.turns);
  EXPECT_LE(simulation.world().rollouts.size(), GetParam().trainer.in_flight);
  uint64_t here = 0;
  for (const Island& island : simulation.islands()) {
    if (island.alive()) here += island.gate().in_flight() + island.gate().waiting();
  }
  EXPECT_LE(here, simulation.world().rollouts.size());
  const bool kills = GetParam().regions[0].spot.kills_per_island_hour > 0;
  EXPECT_EQ(tally.kills > 0, kills);
  EXPECT_LE(tally.lost, kills ? tally.requests : 0);
  const bool aborts = GetParam().policy.drain == sidecar::DrainPolicy::kAbort;
  EXPECT_LE(tally.aborted, aborts ? tally.requests : 0);
}

TEST_P(EveryScenario, ThePublisherAndTheLinksCarryWhatThePlansSay) {
  Simulation simulation(GetParam());
  const Tally& tally = simulation.Run();
  const RegionTally& direct = tally.regions[0];
  const RegionTally& relayed = tally.regions[1];
  EXPECT_EQ(direct.relay_bytes, 0);
  // What is cut off by a kill, or by the end, was planned and is not carried.
  EXPECT_LE(direct.link_bytes, direct.planned_bytes + 1);
  EXPECT_LE(relayed.relay_bytes, relayed.planned_bytes + 1);
  EXPECT_GT(relayed.relay_bytes, relayed.link_bytes);
  const bool whole = GetParam().regions[0].spot.boot_s == 0;
  if (whole) {
    const double under_way = 4 * GetParam().model.checkpoint_bytes;
    EXPECT_GE(direct.link_bytes, direct.planned_bytes - under_way);
    EXPECT_LE(relayed.link_bytes, tally.published_bytes + GetParam().model.checkpoint_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, EveryScenario, testing::ValuesIn(Scenarios()));

TEST(Simulation, WithoutCutsTheLinksCarryExactlyThePlans) {
  Scenario scenario = Small();
  scenario.trainer.step_s = 1'000;  // at the end nothing is under way
  Simulation simulation(scenario);
  const Tally& tally = simulation.Run();
  EXPECT_EQ(tally.versions, 3);
  EXPECT_EQ(tally.switches, 3 * 8);
  EXPECT_NEAR(tally.regions[0].planned_bytes, 4 * 3 * 1e7, 0);
  EXPECT_NEAR(tally.regions[0].link_bytes, 4 * 3 * 1e7, 1e-3);
  EXPECT_NEAR(tally.regions[1].relay_bytes, 4 * 3 * 1e7, 1e-3);
  EXPECT_NEAR(tally.regions[1].link_bytes, 3 * 1e7, 1e-3);  // each patch once
}

TEST(Simulation, ASwitchTakesItsPauseAndItsLoad) {
  Scenario scenario = Small();
  scenario.trainer.step_s = 1'000;
  Simulation simulation(scenario);
  const SpentTimes spent = simulation.Run().spent();
  EXPECT_EQ(spent[static_cast<size_t>(Spent::kPause)], 3 * 8 * FromSeconds(1.7));
  EXPECT_EQ(spent[static_cast<size_t>(Spent::kDrain)], 0);  // in place
  EXPECT_EQ(spent[static_cast<size_t>(Spent::kDown)], 0);
}

TEST(Simulation, BusyEnginesMakeAsManyTokensAsTheyCan) {
  Scenario scenario = Small();
  scenario.trainer.step_s = 0;
  scenario.trainer.in_flight = 200;  // more than there are slots
  scenario.hours = 10;
  Simulation simulation(scenario);
  const Tally& tally = simulation.Run();
  EXPECT_GT(tally.tokens / tally.token_capacity, 0.99);
  EXPECT_LE(tally.tokens / tally.token_capacity, 1);
  EXPECT_NEAR(static_cast<double>(tally.rollouts), tally.token_capacity / 500,
              0.05 * static_cast<double>(tally.rollouts));
}

TEST(Simulation, OneRequestAtATimeTakesWhatItsTokensAndTheWayTake) {
  Scenario scenario = Small();
  scenario.regions.resize(1);
  scenario.regions[0].islands = 1;
  scenario.regions[0].latency_s = 0.5;
  scenario.rollouts.sigma = 0;
  scenario.trainer = {.step_s = 0, .in_flight = 1};
  Simulation simulation(scenario);
  EXPECT_EQ(simulation.Run().rollouts, 3'600 / 6 - 1);  // the last one ends as the hour does
}

TEST(Simulation, FullCheckpointsMakeLagsThatPatchesDoNot) {
  Scenario scenario = Small();
  const Tally patches = Simulation(scenario).Run();
  scenario.full_checkpoints = true;
  const Tally full = Simulation(scenario).Run();
  EXPECT_LT(patches.lag_start.mean(), full.lag_start.mean());
  EXPECT_LT(50 * patches.published_bytes, full.published_bytes);
}

TEST(Simulation, AnEgressIsNotExceeded) {
  Scenario scenario = Small();
  scenario.full_checkpoints = true;
  scenario.egress_bytes_per_s = 5e7;
  const Tally tally = Simulation(scenario).Run();
  EXPECT_LE(tally.regions[0].link_bytes + tally.regions[1].link_bytes, 5e7 * 3'600 * 1.0001);
  EXPECT_GT(tally.regions[0].link_bytes, 1e10);
}

TEST(Simulation, AKilledIslandComesBackAndItsRequestsGoElsewhere) {
  Scenario scenario = Small();
  AddKills(&scenario);
  for (RegionFacts& region : scenario.regions) region.spot.notice_s = 0;
  const Tally tally = Simulation(scenario).Run();
  EXPECT_GT(tally.kills, 20);
  EXPECT_GT(tally.lost, 0);
  EXPECT_GT(tally.retried, 0);
  EXPECT_GT(tally.wasted_tokens, 0);
  const SpentTimes spent = tally.spent();
  EXPECT_GE(spent[static_cast<size_t>(Spent::kDown)],
            static_cast<SimTime>(tally.kills - 8) * FromSeconds(40));
}

TEST(Simulation, ADrainingPolicyDrainsAndAnAbortingOneAborts) {
  Scenario scenario = Small();
  scenario.policy.drain = sidecar::DrainPolicy::kDrain;
  const Tally drained = Simulation(scenario).Run();
  EXPECT_GT(drained.spent()[static_cast<size_t>(Spent::kDrain)], 0);
  EXPECT_EQ(drained.aborted, 0);
  scenario.policy.drain = sidecar::DrainPolicy::kAbort;
  const Tally aborted = Simulation(scenario).Run();
  EXPECT_EQ(aborted.spent()[static_cast<size_t>(Spent::kDrain)], 0);
  EXPECT_GT(aborted.aborted, 0);
  EXPECT_GT(aborted.wasted_tokens, 0);
}

TEST(Simulation, ACapOnTheLagHolds) {
  Scenario scenario = Small();
  scenario.full_checkpoints = true;
  scenario.policy.max_lag = 1;
  const Tally tally = Simulation(scenario).Run();
  // Islands judge by what they have read, the gateway by what any has.
  EXPECT_LE(tally.lag_start.quantile(0.99), 1);
}

TEST(Simulation, NothingAtAllIsSimulatedToo) {
  Scenario scenario = Small();
  scenario.hours = 0;
  EXPECT_EQ(Simulation(scenario).Run().events, 0);
  scenario.hours = 1;
  scenario.trainer.in_flight = 0;
  scenario.trainer.step_s = 0;
  const Tally idle = Simulation(scenario).Run();
  EXPECT_EQ(idle.rollouts, 0);
  EXPECT_EQ(idle.spent()[static_cast<size_t>(Spent::kIdle)], 8 * FromSeconds(3'600));
}

TEST(Simulation, WithoutIslandsEveryRequestIsRefused) {
  for (const bool no_regions : {true, false}) {
    Scenario scenario = Small();
    if (no_regions) scenario.regions.clear();
    for (RegionFacts& region : scenario.regions) region.islands = 0;
    const Tally tally = Simulation(scenario).Run();
    EXPECT_EQ(tally.served, 0);
    EXPECT_EQ(tally.refused, tally.requests);
    EXPECT_EQ(tally.requests, 40 * 3'600);  // each is tried again every second
    EXPECT_GT(tally.versions, 50);
  }
}

TEST(LagHistogram, CountsAndQuantiles) {
  LagHistogram lags;
  EXPECT_EQ(lags.quantile(0.5), 0);
  for (uint64_t lag = 0; lag < 100; ++lag) lags.Add(lag % 10);
  lags.Add(1'000);
  EXPECT_EQ(lags.count(), 101);
  EXPECT_EQ(lags.of(3), 10);
  EXPECT_EQ(lags.of(LagHistogram::kMost), 1);
  EXPECT_EQ(lags.quantile(0.5), 5);
  EXPECT_EQ(lags.quantile(1), LagHistogram::kMost);
  EXPECT_EQ(lags.largest(), 1'000);
}

}  // namespace
}  // namespace isthmus::sim
