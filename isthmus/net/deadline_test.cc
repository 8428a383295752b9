#include "isthmus/net/deadline.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace isthmus::net {
namespace {

TEST(DeadlineTest, ArmedOnesExpireOnceAndTheLoopEndsWhenNothingIsArmed) {
  Loop loop;
  const auto list = std::make_shared<DeadlineList>(loop, Milliseconds(5));
  int expired = 0;
  int never = 0;
  Deadline one(list, [&] { ++expired; });
  Deadline disarmed(list, [&] { ++never; });
  Deadline no_limit(list, [&] { ++never; });
  one.Arm(Milliseconds(1));
  disarmed.Arm(Milliseconds(1));
  disarmed.Disarm();
  no_limit.Arm(Milliseconds(1));
  no_limit.Arm(Milliseconds(0));
  loop.run();
  EXPECT_EQ(expired, 1);
  EXPECT_EQ(never, 0);
}

TEST(DeadlineTest, OneMayDestroyOthersAndArmItselfAgain) {
  Loop loop;
  const auto list = std::make_shared<DeadlineList>(loop, Milliseconds(5));
  std::vector<std::optional<Deadline>> all(5);
  int expired = 0;
  for (auto& one : all) {
    one.emplace(list, [&] {
      ++expired;
      for (auto& other : all) {
        if (&other != &all[2]) other.reset();
      }
      if (expired < 3) all[2]->Arm(Milliseconds(1));
    });
  }
  all[2]->Arm(Milliseconds(1));
  for (auto& one : all) one->Arm(Milliseconds(1));
  loop.run();
  EXPECT_GE(expired, 3);
}

TEST(DeadlineTest, TicksFollowTheShortestLimit) {
  EXPECT_EQ(DeadlineList::TickFor(Milliseconds(80)), Milliseconds(10));
  EXPECT_EQ(DeadlineList::TickFor(Milliseconds(1)), Milliseconds(5));
  EXPECT_EQ(DeadlineList::TickFor(Milliseconds(60'000)), Milliseconds(1000));
}

}  // namespace
}  // namespace isthmus::net
