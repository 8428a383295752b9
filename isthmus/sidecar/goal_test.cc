#include "isthmus/sidecar/goal.h"

#include <gtest/gtest.h>

namespace isthmus::sidecar {
namespace {

using board::kNoVersion;
using board::VersionNumber;
using Versions = std::set<VersionNumber>;

VersionNumber Goal(const GoalInputs& inputs, const Versions& revoked = {},
                   const Versions& unloadable = {}) {
  return ChooseGoal(inputs, revoked, unloadable);
}

TEST(GoalTest, IsTheNewestVersion) {
  EXPECT_EQ(Goal({.head = 7}), 7u);
  EXPECT_EQ(Goal({.head = 7, .served = 3}), 7u);
  EXPECT_EQ(Goal({.head = 7, .served = 7}), 7u);
}

TEST(GoalTest, IsNothingWhereNothingIsKnown) { EXPECT_EQ(Goal({}), kNoVersion); }

TEST(GoalTest, AnOldReadingOfTheLogMovesNobodyBack) {
  EXPECT_EQ(Goal({.head = 5, .served = 7}), 7u);
  EXPECT_EQ(Goal({.head = kNoVersion, .served = 7}), 7u);
}

TEST(GoalTest, RevokedAndUnloadableVersionsArePassedBy) {
  EXPECT_EQ(Goal({.head = 7, .served = 3}, {7}, {6}), 5u);
  EXPECT_EQ(Goal({.head = 7, .served = 7}, {7}), 6u);
  EXPECT_EQ(Goal({.head = 7, .served = 7}, {7, 6, 5}, {4}), 3u);
  EXPECT_EQ(Goal({.head = 2, .served = 2}, {1, 2}), kNoVersion);
}

TEST(GoalTest, AVersionThatIsWaitedForComesFirst) {
  EXPECT_EQ(Goal({.head = 7, .served = 3, .wanted_exactly = 5}), 5u);
  EXPECT_EQ(Goal({.head = 7, .served = 3, .wanted_exactly = 5}, {5}), 7u);
  EXPECT_EQ(Goal({.head = 7, .served = 3, .wanted_exactly = 5}, {}, {5}), 7u);
  EXPECT_EQ(Goal({.head = 7, .served = 3, .wanted_exactly = 9}), 7u);
  EXPECT_EQ(Goal({.head = 7, .served = 6, .wanted_exactly = 5}), 7u);
}

TEST(GoalTest, APinnedIslandHasNoOtherGoal) {
  EXPECT_EQ(Goal({.head = 7, .served = 7, .island_pin = 4, .wanted_exactly = 6}), 4u);
  EXPECT_EQ(Goal({.head = 7, .island_pin = 9}), kNoVersion);
  EXPECT_EQ(Goal({.head = 7, .island_pin = 4}, {4}), kNoVersion);
  EXPECT_EQ(Goal({.head = 7, .island_pin = 4}, {}, {4}), kNoVersion);
}

}  // namespace
}  // namespace isthmus::sidecar
