#include "isthmus/codec/unit.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace isthmus::codec {
namespace {

TEST(UnitTest, OrdIsABijectionThatKeepsFloatOrder) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto unit = static_cast<uint16_t>(bits);
    ASSERT_EQ(OrdInverse(Ord(unit)), unit);
  }
  // -inf < -1 < -0 < +0 < 1 < inf in BF16.
  EXPECT_LT(Ord<uint16_t>(0xFF80), Ord<uint16_t>(0xBF80));
  EXPECT_LT(Ord<uint16_t>(0xBF80), Ord<uint16_t>(0x8000));
  EXPECT_EQ(Ord<uint16_t>(0x8000) + 1, Ord<uint16_t>(0x0000));
  EXPECT_LT(Ord<uint16_t>(0x3F80), Ord<uint16_t>(0x7F80));
}

TEST(UnitTest, EveryStepBetweenBytesIsTakenBackExactly) {
  for (uint32_t from = 0; from < 256; ++from) {
    for (uint32_t to = 0; to < 256; ++to) {
      if (from == to) continue;
      const Step step = StepBetween(static_cast<uint8_t>(from), static_cast<uint8_t>(to));
      ASSERT_LE(step.magnitude_minus_1, MaxMagnitudeMinus1<uint8_t>(step.negative));
      ASSERT_EQ(TakeStep(static_cast<uint8_t>(from), step), to);
    }
  }
}

TEST(UnitTest, StepsOfWiderUnitsAreTakenBackExactly) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 100000; ++i) {
    const auto from = static_cast<uint32_t>(random());
    const auto to = static_cast<uint32_t>(random());
    if (from == to) continue;
    ASSERT_EQ(TakeStep(from, StepBetween(from, to)), to);
    const auto from16 = static_cast<uint16_t>(from);
    const auto to16 = static_cast<uint16_t>(to);
    if (from16 == to16) continue;
    ASSERT_EQ(TakeStep(from16, StepBetween(from16, to16)), to16);
  }
}

TEST(UnitTest, NeighbouringFloatsAreOneStepApart) {
  EXPECT_EQ(StepBetween<uint16_t>(0x3F80, 0x3F81).magnitude_minus_1, 0U);
  EXPECT_EQ(StepBetween<uint16_t>(0x3F80, 0x3F81).negative, 0U);
  EXPECT_EQ(StepBetween<uint16_t>(0xBF80, 0xBF81).negative, 1U);  // away from zero, downward
}

TEST(UnitTest, BucketsAndExtraBitsGiveTheNumberBack) {
  for (uint64_t value = 0; value <= std::numeric_limits<uint32_t>::max();
       value = value < 5000 ? value + 1 : value * 3 / 2) {
    const auto number = static_cast<uint32_t>(value);
    const Bucket bucket = BucketOf(number);
    ASSERT_LE(bucket.symbol, 123U);
    ASSERT_EQ(bucket.extra_bits, BucketExtraBits(bucket.symbol));
    ASSERT_GE(number, BucketStart(bucket.symbol));
    ASSERT_LT(number - BucketStart(bucket.symbol), uint64_t{1} << bucket.extra_bits);
  }
}

}  // namespace
}  // namespace isthmus::codec
