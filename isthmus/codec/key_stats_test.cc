#include "isthmus/codec/key_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace isthmus::codec {
namespace {

// `keys`: of the changed elements among 100 that were compared; `counted`: of others.
KeySample Sample(const std::vector<uint8_t>& keys, const std::vector<uint8_t>& counted,
                 uint64_t elements) {
  KeySample sample;
  sample.keys = keys;
  for (uint32_t i = 0; i < keys.size(); ++i) sample.steps.push_back(2 * i);
  for (const uint8_t key : counted) ++sample.counted_keys[key];
  sample.counted = counted.size();
  sample.compared = 100;
  sample.elements = elements;
  return sample;
}

TEST(KeyStatsTest, SamplesStandForTheWholeChunk) {
  KeyStats stats;
  stats.Add(Sample({5, 5, 7}, {5, 5, 5, 9}, 400));
  EXPECT_DOUBLE_EQ(stats.population[5], 300);
  EXPECT_DOUBLE_EQ(stats.population[9], 100);
  EXPECT_DOUBLE_EQ(stats.changes[5], 8);
  EXPECT_DOUBLE_EQ(stats.changes[7], 4);
  EXPECT_DOUBLE_EQ(stats.steps[5][0], 4);
  EXPECT_DOUBLE_EQ(stats.steps[5][1], 4);
  EXPECT_DOUBLE_EQ(stats.steps[7][2], 4);
  EXPECT_EQ(stats.chunks, 1U);
}

TEST(KeyStatsTest, LargeStepsAreCountedTogether) {
  KeySample sample = Sample({1, 1}, {1}, 100);
  sample.steps = {0xFFFF'FFFF, 0x0FFF'FFFF};
  KeyStats stats;
  stats.Add(sample);
  EXPECT_DOUBLE_EQ(stats.steps[1][kStatStepBuckets - 1], 2);
}

TEST(KeyStatsTest, StatsOfRunsAddUp) {
  KeyStats a;
  a.Add(Sample({5}, {5, 6}, 100));
  KeyStats b;
  b.Add(Sample({6, 6}, {6}, 50));
  KeyStats both = a;
  both.Add(b);
  EXPECT_DOUBLE_EQ(both.population[6], 100);
  EXPECT_DOUBLE_EQ(both.changes[5], 1);
  EXPECT_DOUBLE_EQ(both.changes[6], 1);
  EXPECT_DOUBLE_EQ(both.steps[6][0] + both.steps[6][1], 1);
  EXPECT_EQ(both.chunks, 2U);
}

TEST(KeyStatsTest, WhereNothingWasSampledNothingIsKnown) {
  KeyStats stats;
  stats.Add(KeySample());
  EXPECT_EQ(stats.population[0], 0);
  EXPECT_TRUE(ChooseClasses(stats, 8).thresholds.empty());
}

// 32 keys that occur equally often; below `boundary` a share `low` of the elements changes, from it
// on a share `high`. All steps are alike.
KeyStats TwoKinds(uint8_t boundary, double low, double high) {
  KeyStats stats;
  stats.chunks = 1;
  for (size_t key = 100; key < 132; ++key) {
    stats.population[key] = 30000;
    stats.changes[key] = 30000 * (key < boundary ? low : high);
    stats.steps[key][0] = stats.changes[key];
  }
  return stats;
}

TEST(ChooseClassesTest, AnObviousBoundaryIsFound) {
  for (const uint8_t boundary : std::vector<uint8_t>{101, 116, 131}) {
    const KeyStats stats = TwoKinds(boundary, 0.1, 0.001);
    for (const size_t most : {2, 8, 16}) {
      EXPECT_EQ(ChooseClasses(stats, most).thresholds, std::vector<uint8_t>{boundary});
    }
  }
}

TEST(ChooseClassesTest, ABoundaryOfStepsIsFoundToo) {
  KeyStats stats = TwoKinds(255, 0.05, 0);
  for (size_t key = 110; key < 132; ++key) std::swap(stats.steps[key][0], stats.steps[key][9]);
  EXPECT_EQ(ChooseClasses(stats, 8).thresholds, std::vector<uint8_t>{110});
}

TEST(ChooseClassesTest, WithoutADifferenceOneClassIsCheapest) {
  EXPECT_TRUE(ChooseClasses(TwoKinds(255, 0.05, 0), 16).thresholds.empty());
  KeyStats one_key;
  one_key.chunks = 1;
  one_key.population[0] = 1000;
  one_key.changes[0] = 1;
  EXPECT_TRUE(ChooseClasses(one_key, 16).thresholds.empty());
}

TEST(ChooseClassesTest, MoreClassesNeverCostMore) {
  const KeyStats stats = TwoKinds(116, 0.1, 0.001);
  double last = ChooseClasses(stats, 1).bits;
  EXPECT_TRUE(ChooseClasses(stats, 1).thresholds.empty());
  for (size_t most = 2; most <= 16; ++most) {
    const double bits = ChooseClasses(stats, most).bits;
    EXPECT_LE(bits, last);
    last = bits;
  }
}

TEST(ChooseClassesTest, ThresholdsAscendFromOneAndAreNotTooMany) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    KeyStats stats;
    stats.chunks = 1 + random() % 4;
    for (size_t key = 0; key < 256; ++key) {
      if (random() % 3 == 0) continue;
      stats.population[key] = static_cast<double>(random() % 100000);
      stats.changes[key] = static_cast<double>(random() % 1000 << random() % 8);
      for (auto& count : stats.steps[key]) count = static_cast<double>(random() % 100);
    }
    const size_t most = 1 + random() % 16;
    const std::vector<uint8_t> thresholds = ChooseClasses(stats, most).thresholds;
    ASSERT_LT(thresholds.size(), most);
    ASSERT_TRUE(std::ranges::is_sorted(thresholds, std::less_equal()));
    if (thresholds.empty()) continue;
    ASSERT_GE(thresholds.front(), 1U);
  }
}

}  // namespace
}  // namespace isthmus::codec
