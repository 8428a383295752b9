#include "isthmus/gateway/fleet_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fleet.h"

namespace isthmus::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(FleetSampleTest, CountsVersionsStatesAndLag) {
  std::vector<IslandFacts> fleet = {MakeIsland("a", 42),
                                    MakeIsland("b", 41, IslandState::kStaging),
                                    MakeIsland("c", 42),
                                    MakeIsland("d", 40, IslandState::kCommitting),
                                    MakeIsland("e", 42, IslandState::kSuspect),
                                    MakeIsland("f", 42, IslandState::kGone)};
  const auto samples = SampleRuns(fleet, {{"r", 42}});
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].serving, 4u);
  EXPECT_THAT(samples[0].versions, ElementsAre(Pair(42, 2), Pair(41, 1), Pair(40, 1)));
  EXPECT_EQ(samples[0].others, 0u);
  EXPECT_THAT(samples[0].states, ElementsAre(2, 1, 1, 0, 1, 1));
  EXPECT_EQ(samples[0].lag, (LagSample{0, 2, 2}));
}

TEST(FleetSampleTest, NobodyServesThenThereIsNoLag) {
  const std::vector<IslandFacts> fleet = {MakeIsland("a", kNoVersion),
                                          MakeIsland("b", 3, IslandState::kDraining)};
  const auto samples = SampleRuns(fleet, {{"r", 3}});
  EXPECT_EQ(samples.at(0).lag, std::nullopt);
  EXPECT_EQ(JsonObject(ToJson(samples[0])).at("lag"), nullptr);
}

TEST(FleetSampleTest, AServedVersionAboveTheNewestLagsByNothing) {
  const auto samples = SampleRuns({MakeIsland("a", 9)}, {{"r", 7}});  // 9 and 8 are revoked
  EXPECT_EQ(samples.at(0).lag, (LagSample{0, 0, 0}));
}

TEST(FleetSampleTest, ManyVersionsAreCutToThoseThatMostServe) {
  std::vector<IslandFacts> fleet = MakeFleet(3, 1);
  for (VersionNumber version = 2; version <= 20; ++version) {
    fleet.push_back(MakeIsland(fmt::format("x{}", version), version));
  }
  const auto samples = SampleRuns(fleet, {{"r", 20}});
  EXPECT_EQ(samples.at(0).versions.size(), kSampledVersions);
  EXPECT_THAT(samples[0].versions.front(), Pair(20, 1));
  EXPECT_THAT(samples[0].versions.back(), Pair(1, 3));
  EXPECT_EQ(samples[0].others, 20 - kSampledVersions);
}

TEST(FleetSampleTest, OfManyRunsTheLargestAreKept) {
  std::vector<IslandFacts> fleet = {MakeIsland("a", 1, IslandState::kReady, "z"),
                                    MakeIsland("b", 1, IslandState::kReady, "z")};
  std::vector<RunView> runs = {{"z", 1}};
  for (int i = 0; i < 40; ++i) {
    runs.push_back({fmt::format("r{}", i), 1});
    fleet.push_back(MakeIsland(fmt::format("i{}", i), 1, IslandState::kReady, runs.back().name));
  }
  const auto samples = SampleRuns(fleet, runs);
  EXPECT_EQ(samples.size(), kSampledRuns);
  EXPECT_EQ(samples[0].run, "z");
}

TEST(FleetSampleTest, JsonEscapesNames) {
  const auto samples = SampleRuns({}, {{"\"<b>\n", 4}});
  const auto json = JsonObject(ToJson(samples.at(0)));
  EXPECT_EQ(json.at("run").as_string(), "\"<b>\n");
  EXPECT_EQ(json.at("newest"), 4);
  EXPECT_EQ(json.at("states").as_object().size(), kIslandStates);
}

TEST(FleetSampleTest, TheHighestLagOfTwoIsKept) {
  const auto earlier = SampleRuns({MakeIsland("a", 1), MakeIsland("b", 5)}, {{"r", 9}});
  auto later = SampleRuns({MakeIsland("a", 9), MakeIsland("b", 9)}, {{"r", 9}});
  KeepHighestLag(earlier, &later);
  EXPECT_EQ(later.at(0).lag, (LagSample{0, 8, 8}));
}

}  // namespace
}  // namespace isthmus::gateway
