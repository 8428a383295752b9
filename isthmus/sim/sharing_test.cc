#include "isthmus/sim/sharing.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "isthmus/sim/draws.h"

namespace isthmus::sim {
namespace {

constexpr SimTime kOne = 1'000'000'000;

TEST(Sharing, OneJobTakesItsAmountAtTheRate) {
  Sharing sharing;
  sharing.SetRate(10, 0);
  sharing.Add(7, 25, kOne);
  EXPECT_EQ(sharing.FirstEnd(), kOne + 2 * kOne + kOne / 2);
  EXPECT_FALSE(sharing.PopEnded(3 * kOne));
  EXPECT_EQ(sharing.PopEnded(3 * kOne + kOne / 2), 7);
  EXPECT_EQ(sharing.FirstEnd(), kNever);
}

TEST(Sharing, StandsStillWithoutARate) {
  Sharing sharing;
  sharing.SetRate(10, 0);
  sharing.Add(1, 20, 0);
  sharing.SetRate(0, kOne);
  EXPECT_EQ(sharing.FirstEnd(), kNever);
  sharing.SetRate(10, 100 * kOne);
  EXPECT_EQ(sharing.FirstEnd(), 101 * kOne);
}

TEST(Sharing, WhatIsRemovedSaysWhatItGot) {
  Sharing sharing;
  sharing.SetRate(10, 0);
  sharing.Add(1, 100, 0);
  sharing.Add(2, 100, kOne);
  EXPECT_DOUBLE_EQ(sharing.Remove(2, 3 * kOne).value(), 20);
  EXPECT_DOUBLE_EQ(sharing.Remove(1, 3 * kOne).value(), 30);
  EXPECT_FALSE(sharing.Remove(1, 3 * kOne));
}

// Against a plain list that is advanced job by job.
TEST(Sharing, IsTheSameAsEachJobForItself) {
  Draws draws(3);
  Sharing sharing;
  std::map<uint32_t, double> left;
  SimTime now = 0;
  double rate = 0;
  size_t ended = 0;
  for (uint32_t step = 0; step < 2'000; ++step) {
    const SimTime passed = std::min<SimTime>(FromSeconds(draws.Unit()), sharing.FirstEnd() - now);
    now += passed;
    for (auto& [key, amount] : left) amount -= rate * ToSeconds(passed);
    while (const auto key = sharing.PopEnded(now)) {
      EXPECT_NEAR(left.at(*key), 0, 1e-6);
      left.erase(*key);
      ++ended;
    }
    for (const auto& [key, amount] : left) EXPECT_GT(amount, 0);
    if (draws.Bits() % 2 == 0) {
      left[step] = 1 + 20 * draws.Unit();
      sharing.Add(step, left[step], now);
    }
    rate = draws.Bits() % 8 == 0 ? 0 : 10 * draws.Unit();
    sharing.SetRate(rate, now);
    ASSERT_EQ(sharing.size(), left.size());
  }
  EXPECT_GT(ended, 100);
}

}  // namespace
}  // namespace isthmus::sim
