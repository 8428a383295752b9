#include "isthmus/gateway/load_meter.h"

#include <gtest/gtest.h>

namespace isthmus::gateway {
namespace {

void End(LoadMeter& meter, TurnEnd end, double first_byte_ms = 0, uint32_t attempts = 1) {
  net::ByteBudget budget(0);
  Turn turn(budget);
  turn.end = end;
  turn.first_byte_ms = first_byte_ms;
  turn.attempts = attempts;
  meter.Observe(turn);
}

TEST(LoadMeterTest, EveryRequestHasOneEnd) {
  LoadMeter meter;
  for (size_t i = 0; i < kTurnEnds; ++i) End(meter, static_cast<TurnEnd>(i), 1, 3);
  const RequestTotals totals = meter.Take(4, 5).totals;
  EXPECT_EQ(totals.received, kTurnEnds + 9);
  EXPECT_EQ(totals.served + totals.refused + totals.shed + totals.failed + totals.abandoned,
            kTurnEnds);
  EXPECT_EQ(totals.retried, 2 * kTurnEnds);
}

TEST(LoadMeterTest, FirstBytesAreOfTheTimeSinceItWasAsked) {
  LoadMeter meter;
  EXPECT_FALSE(meter.Take(0, 0).first_byte);
  for (int i = 1; i <= 100'000; ++i) End(meter, TurnEnd::kServed, i);
  const GatewayLoad load = meter.Take(0, 0);
  EXPECT_NEAR(load.first_byte->p50, 50'000, 1'000);
  EXPECT_NEAR(load.first_byte->p99, 99'000, 1'000);
  EXPECT_FALSE(meter.Take(0, 0).first_byte);
}

}  // namespace
}  // namespace isthmus::gateway
