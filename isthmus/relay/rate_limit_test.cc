#include "isthmus/relay/rate_limit.h"

#include <gtest/gtest.h>

namespace isthmus::relay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const MonotonicTime kStart = MonotonicTime() + seconds(1000);

TEST(RateLimitTest, ASecondsWorthPassesAtOnceAndThenTheRateHolds) {
  RateLimit limit(1000);
  EXPECT_EQ(limit.Take("a", 600, kStart).count(), 0);
  EXPECT_EQ(limit.Take("a", 400, kStart).count(), 0);
  EXPECT_EQ(limit.Take("a", 100, kStart).count(), 100);
  EXPECT_EQ(limit.Take("a", 100, kStart + milliseconds(100)).count(), 100);
  EXPECT_EQ(limit.Take("a", 500, kStart + milliseconds(700)).count(), 0);
}

TEST(RateLimitTest, OverALongTimeNobodyGetsMoreThanTheRateAndABucket) {
  RateLimit limit(1000);
  MonotonicTime now = kStart;
  for (int i = 0; i < 100; ++i) now += limit.Take("a", 250, now);
  EXPECT_EQ(now - kStart, seconds(24));  // 25,000 bytes, of which 1000 at once
}

TEST(RateLimitTest, APieceLargerThanABucketPassesInItsTime) {
  RateLimit limit(1000);
  EXPECT_EQ(limit.Take("a", 5000, kStart).count(), 4000);
}

TEST(RateLimitTest, AddressesDoNotShare) {
  RateLimit limit(1000);
  EXPECT_GT(limit.Take("a", 5000, kStart).count(), 0);
  EXPECT_EQ(limit.Take("b", 1000, kStart).count(), 0);
}

TEST(RateLimitTest, ZeroIsNoLimit) {
  RateLimit limit(0);
  EXPECT_EQ(limit.Take("a", uint64_t{1} << 60, kStart).count(), 0);
  EXPECT_EQ(limit.addresses(), 0u);
}

TEST(RateLimitTest, AddressesThatTookNothingOfLateAreForgotten) {
  RateLimit limit(1000);
  for (int i = 0; i < 100'000; ++i) {
    limit.Take(std::to_string(i), 100, kStart + milliseconds(10) * i);
  }
  EXPECT_LE(limit.addresses(), 1025u);
}

TEST(RateLimitTest, TheAddressIsThePeerWithoutItsPort) {
  EXPECT_EQ(AddressOf("127.0.0.1:80"), "127.0.0.1");
  EXPECT_EQ(AddressOf("[::1]:80"), "[::1]");
  EXPECT_EQ(AddressOf(""), "");
}

}  // namespace
}  // namespace isthmus::relay
