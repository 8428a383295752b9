#include "isthmus/gateway/breaker.h"

#include <gtest/gtest.h>

namespace isthmus::gateway {
namespace {

using std::chrono::seconds;

const MonotonicTime kStart{std::chrono::hours(1)};

void Fail(Breaker* breaker, uint32_t times, MonotonicTime now) {
  for (uint32_t i = 0; i < times; ++i) breaker->OnFailed(now);
}

TEST(BreakerTest, OpensAfterFiveFailuresInARow) {
  Breaker breaker;
  Fail(&breaker, 4, kStart);
  breaker.OnServed();
  Fail(&breaker, 4, kStart);
  EXPECT_FALSE(breaker.open());
  EXPECT_EQ(breaker.failures(), 4U);
  Fail(&breaker, 1, kStart);
  EXPECT_TRUE(breaker.open());
  EXPECT_TRUE(breaker.blocked());
  EXPECT_EQ(breaker.name(), "open");
}

TEST(BreakerTest, LetsOneAtATimeTryWhenItsTimeIsOver) {
  Breaker breaker;
  Fail(&breaker, 5, kStart);
  breaker.Advance(kStart + milliseconds(999));
  EXPECT_TRUE(breaker.open());
  breaker.Advance(kStart + seconds(1));
  EXPECT_EQ(breaker.name(), "half-open");
  EXPECT_FALSE(breaker.blocked());
  breaker.OnSent();
  EXPECT_TRUE(breaker.blocked());
  breaker.OnUndecided();
  EXPECT_FALSE(breaker.blocked());
  breaker.OnSent();
  breaker.OnServed();
  EXPECT_EQ(breaker.name(), "closed");
  EXPECT_EQ(breaker.failures(), 0U);
  breaker.OnSent();
  breaker.OnSent();
  EXPECT_FALSE(breaker.blocked());
}

TEST(BreakerTest, DoublesItsTimeUpToAMinute) {
  Breaker breaker;
  Fail(&breaker, 5, kStart);
  MonotonicTime now = kStart;
  for (const int expected : {1, 2, 4, 8, 16, 32, 60, 60}) {
    breaker.Advance(now + seconds(expected) - milliseconds(1));
    EXPECT_TRUE(breaker.open()) << expected;
    now += seconds(expected);
    breaker.Advance(now);
    EXPECT_FALSE(breaker.open()) << expected;
    breaker.OnSent();
    breaker.OnFailed(now);
  }
}

TEST(BreakerTest, StartsAnewAfterAQuietMinute) {
  Breaker breaker;
  Fail(&breaker, 5, kStart);
  breaker.Advance(kStart + seconds(1));
  breaker.OnServed();
  const MonotonicTime soon = kStart + seconds(30);
  Fail(&breaker, 5, soon);
  breaker.Advance(soon + milliseconds(1'999));
  EXPECT_TRUE(breaker.open());
  breaker.Advance(soon + seconds(2));
  breaker.OnServed();
  const MonotonicTime late = soon + seconds(62);
  Fail(&breaker, 5, late);
  breaker.Advance(late + seconds(1));
  EXPECT_FALSE(breaker.open());
}

// Hundreds of requests end at once when an island dies: they are one event.
TEST(BreakerTest, FailuresWhileItIsOpenDoNotCount) {
  Breaker breaker;
  Fail(&breaker, 200, kStart);
  EXPECT_EQ(breaker.failures(), 5U);
  breaker.OnServed();
  EXPECT_TRUE(breaker.open());
  breaker.Advance(kStart + seconds(1));
  EXPECT_FALSE(breaker.open());
}

}  // namespace
}  // namespace isthmus::gateway
