#include "isthmus/tensor/position_sum.h"

#include <gtest/gtest.h>

#include <random>

namespace isthmus::tensor {
namespace {

class PositionSumTest : public ::testing::Test {
 protected:
  PositionSumTest()
      : seed_(std::random_device()()), trace_(__FILE__, __LINE__, seed_), random_(seed_) {}

  ByteVector RandomBytes(size_t size) {
    ByteVector bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
    return bytes;
  }

  unsigned seed_;
  ::testing::ScopedTrace trace_;
  std::mt19937_64 random_;
};

uint64_t Unit(ByteSpan bytes, size_t unit_bytes, size_t i) {
  uint64_t unit = 0;
  for (size_t b = unit_bytes; b-- > 0;) {
    unit = unit << 8 | std::to_integer<uint64_t>(bytes[i * unit_bytes + b]);
  }
  return unit;
}

TEST_F(PositionSumTest, IsTheSumOfFactorsTimesUnitsOfEveryWidth) {
  const ByteVector bytes = RandomBytes(240);
  for (const size_t unit_bytes : {1, 2, 4}) {
    uint64_t expected = 0;
    for (size_t i = 0; i < bytes.size() / unit_bytes; ++i) {
      expected += PositionFactor(1000 + i) * Unit(bytes, unit_bytes, i);
    }
    EXPECT_EQ(PositionSum(bytes, unit_bytes, 1000), expected);
  }
  EXPECT_EQ(PositionSum({}, 2, 5), 0U);
}

// By hand from docs/patch-format.md, section 1.
TEST_F(PositionSumTest, FactorsAreThoseOfTheFormat) {
  EXPECT_EQ(PositionFactor(0), 0xE220'A839'7B1D'CDAFu);  // SplitMix64's first number for seed 0
  EXPECT_EQ(PositionFactor(1), 0x6E78'9E6A'A1B9'65F5u);  // its second one, …F4, made odd
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(PositionFactor(random_()) & 1, 1U);
}

TEST_F(PositionSumTest, AddsUpOverPieces) {
  for (const size_t unit_bytes : {1, 2, 4}) {
    const ByteVector bytes = RandomBytes(400 * unit_bytes);
    const uint64_t whole = PositionSum(bytes, unit_bytes, 0);
    for (int round = 0; round < 50; ++round) {
      const size_t cut = random_() % 401;
      const ByteSpan first = ByteSpan(bytes).first(cut * unit_bytes);
      const ByteSpan rest = ByteSpan(bytes).subspan(cut * unit_bytes);
      ASSERT_EQ(PositionSum(first, unit_bytes, 0) + PositionSum(rest, unit_bytes, cut), whole);
    }
  }
}

TEST_F(PositionSumTest, AnUpdateByChangedUnitsIsTheSumComputedAgain) {
  for (const size_t unit_bytes : {1, 2, 4}) {
    const ByteVector before = RandomBytes(500 * unit_bytes);
    ByteVector after = before;
    uint64_t sum = PositionSum(before, unit_bytes, 7);
    for (size_t i = 0; i < 500; i += 1 + random_() % 20) {
      after[i * unit_bytes] = static_cast<std::byte>(random_());
      sum += PositionSumChange(7 + i, Unit(before, unit_bytes, i), Unit(after, unit_bytes, i));
    }
    EXPECT_EQ(sum, PositionSum(after, unit_bytes, 7));
  }
}

TEST_F(PositionSumTest, EverySingleChangedUnitShows) {
  const ByteVector before = RandomBytes(64);
  for (const size_t unit_bytes : {1, 2, 4}) {
    const uint64_t sum = PositionSum(before, unit_bytes, 0);
    for (size_t bit = 0; bit < 8 * before.size(); ++bit) {
      ByteVector after = before;
      after[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      ASSERT_NE(PositionSum(after, unit_bytes, 0), sum) << bit;
    }
  }
  for (int i = 0; i < 100000; ++i) {
    const auto from = static_cast<uint32_t>(random_());
    const auto to = static_cast<uint32_t>(random_());
    if (from == to) continue;
    ASSERT_NE(PositionSumChange(random_(), from, to), 0U);
  }
}

TEST_F(PositionSumTest, UnitsThatChangePlacesShow) {
  const ByteVector bytes = RandomBytes(100);
  const uint64_t sum = PositionSum(bytes, 1, 0);
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    ByteVector swapped = bytes;
    std::swap(swapped[i], swapped[i + 1]);
    if (swapped == bytes) continue;
    EXPECT_NE(PositionSum(swapped, 1, 0), sum);
  }
}

}  // namespace
}  // namespace isthmus::tensor
