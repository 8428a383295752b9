#include "isthmus/gateway/hold.h"

#include <gtest/gtest.h>

namespace isthmus::gateway {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const MonotonicTime kStart{std::chrono::hours(1)};

TEST(HoldTest, DoublesAndForgets) {
  Hold hold({seconds(30), minutes(10), minutes(10)});
  EXPECT_FALSE(hold.Active(kStart));
  MonotonicTime now = kStart;
  for (const int expected : {30, 60, 120, 240, 480, 600, 600}) {
    hold.Begin(now);
    EXPECT_EQ(hold.until(), now + seconds(expected));
    EXPECT_TRUE(hold.Active(hold.until() - milliseconds(1)));
    EXPECT_FALSE(hold.Active(hold.until()));
    now = hold.until();
  }
  now += minutes(10);
  hold.Begin(now);
  EXPECT_EQ(hold.until(), now + seconds(30));
}

TEST(FlapDamperTest, HoldsWhoComesBackAFourthTimeInAMinute) {
  FlapDamper damper;
  for (int i = 0; i < 3; ++i) {
    damper.OnReturn(kStart + seconds(10 * i));
    EXPECT_FALSE(damper.hold().Active(kStart + seconds(10 * i)));
  }
  damper.OnReturn(kStart + seconds(40));
  EXPECT_EQ(damper.hold().until(), kStart + seconds(41));
  damper.OnReturn(kStart + seconds(50));
  EXPECT_EQ(damper.hold().until(), kStart + seconds(52));
}

TEST(FlapDamperTest, LetsWhoComesBackSeldomIn) {
  FlapDamper damper;
  for (int i = 0; i < 100; ++i) damper.OnReturn(kStart + seconds(20 * i));
  EXPECT_FALSE(damper.hold().Active(kStart + seconds(20 * 99)));
}

}  // namespace
}  // namespace isthmus::gateway
