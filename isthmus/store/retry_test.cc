#include "isthmus/store/retry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stop_token>
#include <thread>
#include <vector>

namespace isthmus::store {
namespace {

using std::chrono::milliseconds;

class FakeClock final : public Clock {
 public:
  WallTime Now() const override { return {}; }
  MonotonicTime Monotonic() const override { return now_; }
  void Pass(milliseconds time) { now_ += time; }

 private:
  MonotonicTime now_;
};

// Draws always the same 64 bits.
class FakeRandom final : public RandomSource {
 public:
  explicit FakeRandom(uint64_t bits) : bits_(bits) {}
  void Fill(MutableByteSpan out) override { std::memcpy(out.data(), &bits_, out.size()); }

 private:
  uint64_t bits_;
};

constexpr RetryLimits kLimits = {milliseconds(100), milliseconds(1000), milliseconds(10'000)};

TEST(RetriesTest, TheBoundDoublesUpToTheLongestDelay) {
  const FakeClock clock;
  std::vector<milliseconds> longest(6);
  for (uint64_t draw = 0; draw < 2000; ++draw) {
    FakeRandom random(draw);
    Retries retries(kLimits, clock, random);
    for (milliseconds& at : longest) at = std::max(at, *retries.Next());
  }
  EXPECT_EQ(longest,
            (std::vector<milliseconds>{milliseconds(100), milliseconds(200), milliseconds(400),
                                       milliseconds(800), milliseconds(1000), milliseconds(1000)}));
}

TEST(RetriesTest, DelaysAreDrawnFromTheWholeRange) {
  const FakeClock clock;
  FakeRandom none(0);
  EXPECT_EQ(Retries(kLimits, clock, none).Next(), milliseconds(0));
  FakeRandom some(57);
  EXPECT_EQ(Retries(kLimits, clock, some).Next(), milliseconds(57));
}

TEST(RetriesTest, TheServersWishIsALowerBound) {
  const FakeClock clock;
  FakeRandom random(7);
  Retries retries(kLimits, clock, random);
  EXPECT_EQ(retries.Next(milliseconds(2500)), milliseconds(2500));
  EXPECT_EQ(retries.Next(milliseconds(3)), milliseconds(7));
}

TEST(RetriesTest, NothingIsTriedAfterTheDeadline) {
  FakeClock clock;
  FakeRandom random(90);
  Retries retries(kLimits, clock, random);
  clock.Pass(milliseconds(9'850));
  EXPECT_EQ(retries.left(), milliseconds(150));
  EXPECT_EQ(retries.Next(), milliseconds(90 % 51));  // leaves 100 ms for the try
  EXPECT_EQ(retries.Next(milliseconds(50)), std::nullopt);
  clock.Pass(milliseconds(50));
  EXPECT_EQ(retries.Next(), std::nullopt);
  clock.Pass(milliseconds(110));
  EXPECT_EQ(retries.left(), milliseconds(0));
  EXPECT_EQ(retries.Next(), std::nullopt);
  EXPECT_EQ(retries.tries(), 2);
}

TEST(WaitUnlessStoppedTest, EndsWithTheStopOrTheTime) {
  EXPECT_TRUE(WaitUnlessStopped(milliseconds(1), {}));
  std::stop_source stop;
  EXPECT_TRUE(WaitUnlessStopped(milliseconds(1), stop.get_token()));
  const std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_FALSE(WaitUnlessStopped(std::chrono::hours(1), stop.get_token()));
  EXPECT_FALSE(WaitUnlessStopped(milliseconds(0), stop.get_token()));
}

}  // namespace
}  // namespace isthmus::store
