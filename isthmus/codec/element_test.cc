#include "isthmus/codec/element.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>

namespace isthmus::codec {
namespace {

using tensor::Dtype;

TEST(ElementTest, OrdIsABijectionOfEveryWidth) {
  const auto check = []<uint32_t kBits>(std::integral_constant<uint32_t, kBits>) {
    using E = Element<kBits>;
    std::vector<bool> seen(size_t{1} << kBits);
    for (uint32_t bits = 0; bits < seen.size(); ++bits) {
      const auto order = E::Ord(static_cast<typename E::Bits>(bits));
      ASSERT_LT(order, seen.size());
      ASSERT_FALSE(seen[order]);
      seen[order] = true;
      ASSERT_EQ(E::OrdInverse(order), bits);
    }
  };
  check(std::integral_constant<uint32_t, 4>());
  check(std::integral_constant<uint32_t, 8>());
  check(std::integral_constant<uint32_t, 16>());
}

TEST(ElementTest, OrdKeepsTheOrderOfFloats) {
  // -inf < -1 < -0 < +0 < 1 < inf in BF16.
  const std::array<uint16_t, 6> ascending = {0xFF80, 0xBF80, 0x8000, 0x0000, 0x3F80, 0x7F80};
  for (size_t i = 1; i < ascending.size(); ++i) {
    EXPECT_LT(Element<16>::Ord(ascending[i - 1]), Element<16>::Ord(ascending[i]));
  }
  EXPECT_EQ(Element<16>::Ord(0x8000) + 1, Element<16>::Ord(0x0000));
}

template <uint32_t kBits>
void ExpectTakenBack(uint32_t from, uint32_t to) {
  using E = Element<kBits>;
  const auto old_bits = static_cast<typename E::Bits>(from & E::kMask);
  const auto new_bits = static_cast<typename E::Bits>(to & E::kMask);
  if (old_bits == new_bits) return;
  const PackedStep step = StepBetween<kBits>(old_bits, new_bits);
  ASSERT_LE(step >> 1, E::MaxMagnitudeMinus1(step & 1));
  ASSERT_EQ(TakeStep<kBits>(old_bits, step), new_bits);
}

TEST(ElementTest, EveryStepBetweenSmallElementsIsTakenBackExactly) {
  for (uint32_t from = 0; from < 256; ++from) {
    for (uint32_t to = 0; to < 256; ++to) {
      ExpectTakenBack<4>(from, to);
      ExpectTakenBack<8>(from, to);
    }
  }
}

TEST(ElementTest, StepsOfWiderElementsAreTakenBackExactly) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 100000; ++i) {
    const auto from = static_cast<uint32_t>(random());
    const auto to = static_cast<uint32_t>(random());
    ExpectTakenBack<16>(from, to);
    ExpectTakenBack<32>(from, to);
  }
}

TEST(ElementTest, StepsBetweenExtremesAreTakenBackExactly) {
  const std::array<uint32_t, 10> values = {
      0, 1, 0x7F80, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF'FFFF, 0x8000'0000, 0x8000'0001, 0xFFFF'FFFF};
  for (const uint32_t from : values) {
    for (const uint32_t to : values) {
      ExpectTakenBack<16>(from, to);
      ExpectTakenBack<32>(from, to);
    }
  }
  // The step that has no counterpart of the other sign.
  EXPECT_EQ(StepBetween<16>(0x8000, 0x7FFF), 0x7FFFU << 1 | 1U);
  EXPECT_EQ(StepBetween<16>(Element<16>::OrdInverse(0), Element<16>::OrdInverse(0x8000)),
            0x7FFFU << 1 | 1U);
}

TEST(ElementTest, NeighbouringFloatsAreOneStepApart) {
  EXPECT_EQ(StepBetween<16>(0x3F80, 0x3F81), 0U);
  EXPECT_EQ(StepBetween<16>(0x3F81, 0x3F80), 1U);
  EXPECT_EQ(StepBetween<16>(0xBF80, 0xBF81), 1U);  // away from zero, downward
  EXPECT_EQ(StepBetween<16>(0x8000, 0x0000), 0U);  // -0 to +0
}

template <uint32_t kM>
void ExpectBucketsGiveTheNumberBack(uint64_t most, uint32_t buckets) {
  for (uint64_t value = 0; value <= most; value = value < 5000 ? value + 1 : value * 9 / 8) {
    const auto number = static_cast<uint32_t>(value);
    const Bucket bucket = BucketOf<kM>(number);
    ASSERT_LT(bucket.bucket, buckets);
    ASSERT_EQ(bucket.extra_bits, BucketExtraBits<kM>(bucket.bucket));
    ASSERT_GE(number, BucketStart<kM>(bucket.bucket));
    ASSERT_LT(number - BucketStart<kM>(bucket.bucket), uint64_t{1} << bucket.extra_bits);
  }
  EXPECT_EQ(BucketOf<kM>(static_cast<uint32_t>(most)).bucket, buckets - 1);
}

TEST(ElementTest, BucketsAndExtraBitsGiveTheNumberBack) {
  ExpectBucketsGiveTheNumberBack<kGapM>(kMaxChunkElements - 1, kMaxGapBuckets);
  ExpectBucketsGiveTheNumberBack<kStepM>(0x7FFF'FFFF, kMaxStepBuckets);
}

TEST(ElementTest, BucketsFollowEachOtherWithoutHoles) {
  for (uint32_t b = 0; b + 1 < kMaxGapBuckets; ++b) {
    EXPECT_EQ(BucketStart<kGapM>(b) + (1U << BucketExtraBits<kGapM>(b)), BucketStart<kGapM>(b + 1));
  }
  for (uint32_t b = 0; b + 1 < kMaxStepBuckets; ++b) {
    EXPECT_EQ(BucketStart<kStepM>(b) + (1U << BucketExtraBits<kStepM>(b)),
              BucketStart<kStepM>(b + 1));
  }
}

// docs/patch-format.md, 3.3, the table of keys.
TEST(ElementTest, KeysAreTheExponentOrTheTopBits) {
  const auto rule = [](Dtype dtype) { return KeyRuleOf(Elements::kUnits, dtype); };
  EXPECT_EQ(KeyOf<16>(0xBF81, rule(Dtype::kBf16)), 0x7F);  // -1.0: exponent 127
  EXPECT_EQ(KeyOf<32>(0xBF80'0001, rule(Dtype::kF32)), 0x7F);
  EXPECT_EQ(KeyOf<32>(0xBF80'0001, rule(Dtype::kC64)), 0x7F);
  EXPECT_EQ(KeyOf<16>(0xBC01, rule(Dtype::kF16)), 0x3C);
  EXPECT_EQ(KeyOf<8>(0xBC, rule(Dtype::kF8E4M3)), 0x3C);
  EXPECT_EQ(KeyOf<8>(0xBC, rule(Dtype::kF8E5M2Fnuz)), 0x3C);
  EXPECT_EQ(KeyOf<8>(0xBC, rule(Dtype::kF8E8M0)), 0xBC);
  EXPECT_EQ(KeyOf<16>(0xBCDE, rule(Dtype::kI16)), 0xBC);
  EXPECT_EQ(KeyOf<32>(0xBCDE'0123, rule(Dtype::kF64)), 0xBC);
  EXPECT_EQ(KeyOf<8>(0xBC, rule(Dtype::kF4)), 0xBC);
}

TEST(ElementTest, KeysOfCodesAreTheCodeAndOfF4WithoutTheSign) {
  EXPECT_EQ(KeyOf<4>(0xB, KeyRuleOf(Elements::kCodes4, Dtype::kF4)), 0x3);
  EXPECT_EQ(KeyOf<4>(0xB, KeyRuleOf(Elements::kCodes4, Dtype::kU8)), 0xB);
  EXPECT_EQ(KeyOf<4>(0xB, KeyRuleOf(Elements::kCodes4, Dtype::kBf16)), 0xB);
}

TEST(ElementTest, ElementsAreUnitsOrCodes) {
  EXPECT_EQ(ElementBits(Elements::kUnits, Dtype::kF4), 8U);
  EXPECT_EQ(ElementBits(Elements::kUnits, Dtype::kBf16), 16U);
  EXPECT_EQ(ElementBits(Elements::kUnits, Dtype::kF64), 32U);
  EXPECT_EQ(ElementBits(Elements::kCodes4, Dtype::kI32), 4U);
}

}  // namespace
}  // namespace isthmus::codec
