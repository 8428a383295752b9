#include "isthmus/sim/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "isthmus/sim/draws.h"

namespace isthmus::sim {
namespace {

TEST(Timeline, EventsComeInOrderOfTimeAndThenOfAddition) {
  Draws draws(1);
  Timeline timeline;
  std::vector<std::pair<SimTime, uint32_t>> expected;
  for (uint32_t i = 0; i < 1'000; ++i) {
    const auto at = static_cast<SimTime>(draws.Bits() % 100);
    timeline.Add(at, EventKind::kArrive, i);
    expected.emplace_back(at, i);
  }
  std::ranges::sort(expected);
  for (const auto& [at, i] : expected) {
    const Event event = timeline.Pop();
    EXPECT_EQ(event.at, at);
    EXPECT_EQ(event.a, i);
    EXPECT_EQ(timeline.now(), at);
  }
  EXPECT_TRUE(timeline.empty());
  EXPECT_EQ(timeline.next(), kNever);
}

TEST(Timeline, NothingIsAddedBeforeNow) {
  Timeline timeline;
  timeline.Add(10, EventKind::kArrive);
  timeline.Pop();
  timeline.Add(3, EventKind::kArrive);
  EXPECT_EQ(timeline.Pop().at, 10);
}

TEST(Timeline, SecondsAreRoundedUpAndBounded) {
  EXPECT_EQ(FromSeconds(0), 0);
  EXPECT_EQ(FromSeconds(1.5), 1'500'000'000);
  EXPECT_EQ(FromSeconds(1e-12), 1);
  EXPECT_EQ(FromSeconds(-1), 0);
  EXPECT_EQ(FromSeconds(1e300), kLongTime);
  EXPECT_EQ(FromSeconds(NAN), kLongTime);
}

TEST(Draws, AreWhatTheAlgorithmSaysAndOfTheRightMeans) {
  Draws draws(0);
  EXPECT_EQ(draws.Bits(), 0xE220A8397B1DCDAF);  // SplitMix64's first output for seed 0
  double exponential = 0;
  double normal = 0;
  double square = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    exponential += draws.Exponential(3);
    const double drawn = draws.Normal();
    normal += drawn;
    square += drawn * drawn;
  }
  EXPECT_NEAR(exponential / kDraws, 3, 0.05);
  EXPECT_NEAR(normal / kDraws, 0, 0.02);
  EXPECT_NEAR(square / kDraws, 1, 0.02);
}

}  // namespace
}  // namespace isthmus::sim
