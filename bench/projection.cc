#include "bench/projection.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace isthmus::bench {
namespace {

constexpr float kFp8Max = 448.0f;
constexpr float kFp4Max = 6.0f;

float FromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// To nearest even; finite.
uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// To the nearest even integer, for magnitudes below 2^22: what is added leaves no fraction bits.
// Unlike std::nearbyint it is vectorised everywhere.
float Round(float value) {
  constexpr float kNoFraction = 0x1.8p23f;
  return (value + kNoFraction) - kNoFraction;
}

float LargestMagnitude(std::span<const uint16_t> values) {
  uint16_t largest = 0;
  for (const uint16_t bits : values) largest = std::max<uint16_t>(largest, bits & 0x7FFFu);
  return FromBf16(largest);
}

void SetNibble(ByteVector* codes, uint64_t index, uint8_t code) {
  (*codes)[index / 2] |= static_cast<std::byte>(code << (index % 2 * 4));
}

float BlockMagnitude(const Bf16Matrix& matrix, uint64_t row, uint64_t column) {
  float largest = 0;
  for (uint64_t r = row; r < row + kFp8Block; ++r) {
    largest = std::max(
        largest, LargestMagnitude(matrix.values.subspan(r * matrix.columns + column, kFp8Block)));
  }
  return largest;
}

void CodeBlock(const Bf16Matrix& matrix, uint64_t row, uint64_t column, float scale,
               ByteVector* codes) {
  for (uint64_t r = row; r < row + kFp8Block; ++r) {
    const uint64_t begin = r * matrix.columns + column;
    for (uint64_t i = begin; i < begin + kFp8Block; ++i) {
      (*codes)[i] = std::byte{ToE4M3(FromBf16(matrix.values[i]) / scale)};
    }
  }
}

}  // namespace

uint8_t ToE4M3(float value) {
  const uint32_t sign = std::bit_cast<uint32_t>(value) >> 31 << 7;
  const float magnitude = std::min(std::fabs(value), kFp8Max);
  // Below 2^-6 codes are multiples of 2^-9; the largest of them is the code of 2^-6 itself.
  const auto subnormal = static_cast<uint32_t>(Round(std::min(magnitude, 0x1p-6f) * 0x1p9f));
  uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  bits += 0x7FFFFu + (bits >> 20 & 1u);
  const uint32_t normal = (bits >> 20) - ((127u - 7u) << 3);  // the biases of float and E4M3
  return static_cast<uint8_t>(sign | (magnitude < 0x1p-6f ? subnormal : normal));
}

uint8_t ToE2M1(float value) {
  const uint32_t sign = std::bit_cast<uint32_t>(value) >> 31 << 3;
  const float magnitude = std::min(std::fabs(value), kFp4Max);
  // Codes are 0.5 apart below 2, 1 apart to 4, 2 apart to 6.
  float code = Round(magnitude * 2);
  if (magnitude >= 2) code = Round(magnitude) + 2;
  if (magnitude >= 4) code = Round(magnitude / 2) + 4;
  return static_cast<uint8_t>(sign | static_cast<uint32_t>(code));
}

Projected ProjectFp8(const Bf16Matrix& matrix) {
  Projected out;
  out.codes.resize(matrix.values.size());
  for (uint64_t row = 0; row < matrix.rows(); row += kFp8Block) {
    for (uint64_t column = 0; column < matrix.columns; column += kFp8Block) {
      const float scale = BlockMagnitude(matrix, row, column) / kFp8Max;
      CodeBlock(matrix, row, column, scale > 0 ? scale : 1, &out.codes);
      const size_t at = out.scales.size();
      out.scales.resize(at + sizeof scale);
      StoreLe(out.scales.data() + at, std::bit_cast<uint32_t>(scale));
    }
  }
  return out;
}

Projected ProjectInt4(const Bf16Matrix& matrix) {
  Projected out;
  out.codes.resize(matrix.values.size() / 2);
  out.scales.resize(matrix.values.size() / kGroup * sizeof(uint16_t));
  for (uint64_t group = 0; group < matrix.values.size() / kGroup; ++group) {
    const uint64_t first = group * kGroup;
    const uint16_t stored = ToBf16(LargestMagnitude(matrix.values.subspan(first, kGroup)) / 7.5f);
    StoreLe(out.scales.data() + group * sizeof stored, stored);
    const float scale = stored == 0 ? 1 : FromBf16(stored);
    for (uint64_t i = first; i < first + kGroup; ++i) {
      const float code = Round(FromBf16(matrix.values[i]) / scale);
      SetNibble(&out.codes, i, static_cast<uint8_t>(std::clamp(code, -8.0f, 7.0f) + 8));
    }
  }
  return out;
}

Projected ProjectFp4(const Bf16Matrix& matrix) {
  Projected out;
  out.codes.resize(matrix.values.size() / 2);
  for (uint64_t first = 0; first < matrix.values.size(); first += kGroup) {
    const float largest = LargestMagnitude(matrix.values.subspan(first, kGroup));
    const int biased = largest == 0 ? 0 : std::max(std::ilogb(largest) - 2 + 127, 0);
    out.scales.push_back(static_cast<std::byte>(biased));
    const float inverse = std::ldexp(1.0f, 127 - biased);
    for (uint64_t i = first; i < first + kGroup; ++i) {
      SetNibble(&out.codes, i, ToE2M1(FromBf16(matrix.values[i]) * inverse));
    }
  }
  return out;
}

}  // namespace isthmus::bench
