#include "isthmus/base/clock.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/errors.h"

namespace isthmus {
namespace {

using std::chrono::milliseconds;
using testing::ExpectError;

WallTime AtMs(int64_t ms) { return WallTime(milliseconds(ms)); }

TEST(ClockTest, FormatsUtcWithMilliseconds) {
  EXPECT_EQ(FormatTime(AtMs(0)), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(FormatTime(AtMs(1769851800250)), "2026-01-31T09:30:00.250Z");
}

TEST(ClockTest, FormatsTimesBefore1970) {
  EXPECT_EQ(FormatTime(AtMs(-1)), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(FormatTime(AtMs(-1000)), "1969-12-31T23:59:59.000Z");
  EXPECT_EQ(FormatTime(AtMs(-86'400'000)), "1969-12-31T00:00:00.000Z");
}

TEST(ClockTest, FormattingRoundsDownToMilliseconds) {
  EXPECT_EQ(FormatTime(WallTime(std::chrono::nanoseconds(1'999'999))), "1970-01-01T00:00:00.001Z");
  EXPECT_EQ(FormatTime(WallTime(std::chrono::nanoseconds(-1))), "1969-12-31T23:59:59.999Z");
}

TEST(ClockTest, ParsingInvertsFormatting) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  // 200 years around 1970: what nanoseconds in 64 bits hold with room to spare.
  std::uniform_int_distribution<int64_t> ms(-3'155'760'000'000, 3'155'760'000'000);
  for (int i = 0; i < 10000; ++i) {
    const WallTime time = AtMs(ms(random));
    EXPECT_EQ(ParseTime(FormatTime(time)), time);
  }
}

TEST(ClockTest, ParsesTheLeapDay) {
  EXPECT_EQ(FormatTime(ParseTime("2024-02-29T00:00:00.000Z")), "2024-02-29T00:00:00.000Z");
}

TEST(ClockTest, ParsingRefusesEveryOtherForm) {
  for (const char* text :
       {"", "2026", "2026-01-31", "2026-01-31T09:30:00Z", "2026-01-31T09:30:00.250",
        "2026-01-31T09:30:00.25Z", "2026-01-31T09:30:00.2500Z", "2026-01-31 09:30:00.250Z",
        "2026-01-31T09:30:00.250z", "2026-01-31T09:30:00.250+00:00", "2026-1-31T09:30:00.250Z",
        " 2026-01-31T09:30:00.250Z", "2026-01-31T09:30:00.250Z ", "2026-01-31T 9:30:00.250Z",
        "+026-01-31T09:30:00.250Z", "2026-01-31T09:30:00.-50Z", "now"}) {
    ExpectError(
        ErrorCode::kCorrupt, [&] { ParseTime(text); }, "read time", fmt::format("\"{}\"", text));
  }
}

TEST(ClockTest, ParsingRefusesDatesThatDoNotExist) {
  for (const char* text :
       {"2026-02-29T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "2026-00-01T00:00:00.000Z",
        "2026-01-32T00:00:00.000Z", "2026-01-00T00:00:00.000Z", "2026-01-01T24:00:00.000Z",
        "2026-01-01T00:60:00.000Z", "2026-01-01T00:00:60.000Z"}) {
    ExpectError(
        ErrorCode::kCorrupt, [&] { ParseTime(text); }, text);
  }
}

TEST(ClockTest, ParsingRefusesYearsThatNanosecondsIn64BitsCannotHold) {
  for (const char* text :
       {"9999-12-31T23:59:59.999Z", "2300-01-01T00:00:00.000Z", "1600-01-01T00:00:00.000Z",
        "0000-01-01T00:00:00.000Z", "2262-04-11T23:47:16.999Z", "2261-99-01T00:00:00.000Z"}) {
    ExpectError(
        ErrorCode::kCorrupt, [&] { ParseTime(text); }, text);
  }
}

TEST(ClockTest, ParsingRefusesAZeroByteInTheText) {
  const std::string text = std::string("2026-01-31T09:30:00.250Z") + '\0';
  ExpectError(ErrorCode::kCorrupt, [&] { ParseTime(text); });
}

TEST(ClockTest, SecondsSinceUsesTheGivenClock) {
  class StoppedClock final : public Clock {
   public:
    WallTime Now() const override { return {}; }
    MonotonicTime Monotonic() const override { return MonotonicTime(milliseconds(2500)); }
  };
  EXPECT_EQ(SecondsSince(MonotonicTime(milliseconds(1000)), StoppedClock()), 1.5);
}

TEST(ClockTest, TheMachinesMonotonicClockNeverGoesBack) {
  const MonotonicTime start = SystemClock().Monotonic();
  EXPECT_GE(SecondsSince(start), 0.0);
}

}  // namespace
}  // namespace isthmus
