#include "isthmus/gateway/staleness.h"

#include <gtest/gtest.h>

namespace isthmus::gateway {
namespace {

TEST(LagTest, IsNeverNegative) {
  EXPECT_EQ(LagOf(3, 5), 2);
  EXPECT_EQ(LagOf(5, 3), 0);
}

TEST(LagHistogramTest, BoundsBelongToTheirBucket) {
  EXPECT_EQ(LagHistogram::BucketOf(0), 0);
  EXPECT_EQ(LagHistogram::BucketOf(4), 4);
  EXPECT_EQ(LagHistogram::BucketOf(5), 4);
  EXPECT_EQ(LagHistogram::BucketOf(128), 8);
  EXPECT_EQ(LagHistogram::BucketOf(129), 9);
}

TEST(StalenessTest, CountsASessionOnceAtItsWorst) {
  Staleness staleness;
  staleness.Observe("r", "s", 0, 1);
  staleness.Observe("r", "s", 0, 3);
  staleness.Observe("r", "s", 0, 0);
  staleness.Observe("r", "", 2, 2);
  const RunStaleness& run = staleness.runs().at("r");
  EXPECT_EQ(run.start.counts[0], 3);
  EXPECT_EQ(run.end.sum, 6);
  EXPECT_EQ(run.sessions.counts[3], 1);
  EXPECT_EQ(run.sessions.sum, 3);
}

TEST(StalenessTest, RunsAndSessionsAreBounded) {
  Staleness staleness;
  for (size_t i = 0; i < 2 * Staleness::kMaxRuns; ++i) {
    staleness.Observe(std::to_string(i), "", 1, 1);
  }
  EXPECT_EQ(staleness.runs().size(), Staleness::kMaxRuns + 1);
  EXPECT_EQ(staleness.runs().at("other").end.sum, Staleness::kMaxRuns);
  for (size_t i = 0; i < Staleness::kMaxSessions + 10; ++i) {
    staleness.Observe("0", std::to_string(i), 0, 1);
  }
  EXPECT_EQ(staleness.runs().at("0").sessions.sum, Staleness::kMaxSessions);
}

}  // namespace
}  // namespace isthmus::gateway
