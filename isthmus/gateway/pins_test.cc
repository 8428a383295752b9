#include "isthmus/gateway/pins.h"

#include <gtest/gtest.h>

namespace isthmus::gateway {
namespace {

TEST(PinsTest, KeepTheFirstVersionOfASession) {
  Pins pins;
  EXPECT_EQ(pins.Find("r", "s"), kNoVersion);
  pins.Keep("r", "s", 4);
  pins.Keep("r", "s", 5);
  EXPECT_EQ(pins.Find("r", "s"), 4);
  EXPECT_EQ(pins.Find("q", "s"), kNoVersion);
}

TEST(PinsTest, ForgetTheSessionThatWasNamedLongestAgo) {
  Pins pins(2);
  pins.Keep("r", "a", 1);
  pins.Keep("r", "b", 2);
  EXPECT_EQ(pins.Find("r", "a"), 1);
  pins.Keep("r", "c", 3);
  EXPECT_EQ(pins.size(), 2);
  EXPECT_EQ(pins.Find("r", "b"), kNoVersion);
  EXPECT_EQ(pins.Find("r", "a"), 1);
}

}  // namespace
}  // namespace isthmus::gateway
