#include "bench/projection.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace isthmus::bench {
namespace {

uint16_t Bf16(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

float FromE4M3(int code) {
  const int exponent = code >> 3 & 15;
  const float mantissa = static_cast<float>(code & 7) / 8;
  return exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
}

TEST(Projection, E4M3OfItsOwnNumbersIsTheNumber) {
  for (int code = 0; code < 0x7F; ++code) {
    EXPECT_EQ(ToE4M3(FromE4M3(code)), code);
    EXPECT_EQ(ToE4M3(-FromE4M3(code)), code | 0x80);
  }
}

TEST(Projection, E4M3RoundsToNearestEven) {
  for (int code = 0; code < 0x7E; ++code) {
    const float middle = (FromE4M3(code) + FromE4M3(code + 1)) / 2;
    EXPECT_EQ(ToE4M3(middle), code + (code & 1)) << middle;
    EXPECT_EQ(ToE4M3(std::nextafter(middle, 0.0f)), code) << middle;
    EXPECT_EQ(ToE4M3(std::nextafter(middle, 1000.0f)), code + 1) << middle;
  }
  EXPECT_EQ(ToE4M3(1e9f), 0x7E);
}

TEST(Projection, E2M1RoundsToNearestEven) {
  const std::vector<std::pair<float, int>> cases = {
      {0.0f, 0},  {0.24f, 0}, {0.25f, 0}, {0.26f, 1}, {0.5f, 1}, {0.75f, 2}, {1.0f, 2},
      {1.25f, 2}, {1.5f, 3},  {1.75f, 4}, {2.0f, 4},  {2.5f, 4}, {2.6f, 5},  {3.0f, 5},
      {3.4f, 5},  {3.5f, 6},  {4.0f, 6},  {5.0f, 6},  {5.1f, 7}, {6.0f, 7},  {7.5f, 7}};
  for (const auto& [value, code] : cases) {
    EXPECT_EQ(ToE2M1(value), code) << value;
    EXPECT_EQ(ToE2M1(-value), code | 8) << value;
  }
}

TEST(Projection, Fp8ScalesBlocksByTheirLargest) {
  constexpr uint64_t kColumns = 2 * kFp8Block;
  std::vector<uint16_t> values(kFp8Block * kColumns, Bf16(1.0f));
  values[kColumns + 3] = Bf16(-448.0f);           // first block: the scale is 1
  values[2 * kColumns + kFp8Block] = Bf16(2.0f);  // second block: 2 / 448
  const Projected made = ProjectFp8({values, kColumns});
  ASSERT_EQ(made.scales.size(), 8U);
  EXPECT_EQ(std::bit_cast<float>(LoadLe<uint32_t>(made.scales.data())), 1.0f);
  EXPECT_EQ(std::bit_cast<float>(LoadLe<uint32_t>(made.scales.data() + 4)), 2.0f / 448);
  EXPECT_EQ(made.codes[0], std::byte{ToE4M3(1)});
  EXPECT_EQ(made.codes[kColumns + 3], std::byte{0xFE});
  EXPECT_EQ(made.codes[kFp8Block], std::byte{ToE4M3(224)});
  EXPECT_EQ(made.codes[2 * kColumns + kFp8Block], std::byte{0x7E});
}

TEST(Projection, Int4PacksTheFirstCodeLowest) {
  std::vector<uint16_t> values(kGroup, 0);
  values[0] = Bf16(7.5f);  // the scale is 1: this one rounds to 8 and is clamped
  values[1] = Bf16(-7.5f);
  values[2] = Bf16(2.5f);
  const Projected made = ProjectInt4({values, kGroup});
  EXPECT_EQ(LoadLe<uint16_t>(made.scales.data()), Bf16(1.0f));
  ASSERT_EQ(made.codes.size(), 16U);
  EXPECT_EQ(LoadLe<uint32_t>(made.codes.data()), 0x88888A0FU);
}

TEST(Projection, Fp4ScalesArePowersOfTwo) {
  std::vector<uint16_t> values(2 * kGroup, 0);
  values[0] = Bf16(0.75f);    // exponent -1: the scale is 2^-3, so this is 6
  values[1] = Bf16(-0.125f);  // -1
  const Projected made = ProjectFp4({values, 2 * kGroup});
  ASSERT_EQ(made.scales.size(), 2U);
  EXPECT_EQ(made.scales[0], std::byte{127 - 3});
  EXPECT_EQ(made.scales[1], std::byte{0});
  EXPECT_EQ(made.codes[0], std::byte{0xA7});
}

}  // namespace
}  // namespace isthmus::bench
