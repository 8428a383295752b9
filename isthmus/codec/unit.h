// Units and steps: how a change of bits becomes a small signed number (docs/patch-format.md, 3.3).
#ifndef ISTHMUS_CODEC_UNIT_H_
#define ISTHMUS_CODEC_UNIT_H_

#include <bit>
#include <concepts>
#include <cstdint>

namespace isthmus::codec {

// Units of one chunk; the last chunk of a tensor may have fewer.
inline constexpr uint64_t kChunkUnits = uint64_t{1} << 20;

template <typename T>
concept Unit = std::same_as<T, uint8_t> || std::same_as<T, uint16_t> || std::same_as<T, uint32_t>;

template <Unit T>
inline constexpr T kTopBit = static_cast<T>(T{1} << (8 * sizeof(T) - 1));

// The bijection that orders floats by value, and its inverse.
template <Unit T>
constexpr T Ord(T bits) {
  return static_cast<T>((bits & kTopBit<T>) != 0 ? ~bits : bits | kTopBit<T>);
}
template <Unit T>
constexpr T OrdInverse(T order) {
  return static_cast<T>((order & kTopBit<T>) != 0 ? order & ~kTopBit<T> : ~order);
}

// A step as the format stores it: |d| - 1 and the sign, for d = Ord(next) - Ord(old) != 0.
struct Step {
  uint32_t magnitude_minus_1;
  uint32_t negative;  // 0 or 1
};

template <Unit T>
constexpr Step StepBetween(T old_bits, T new_bits) {
  const T difference = static_cast<T>(Ord(new_bits) - Ord(old_bits));
  // The value with only the top bit set is -2^(8w-1): its magnitude is itself.
  const bool negative = (difference & kTopBit<T>) != 0;
  const T magnitude = negative ? static_cast<T>(T{0} - difference) : difference;
  return {static_cast<uint32_t>(magnitude) - 1u, negative ? 1u : 0u};
}

template <Unit T>
constexpr T TakeStep(T old_bits, Step step) {
  const T magnitude = static_cast<T>(step.magnitude_minus_1 + 1u);
  const T order = Ord(old_bits);
  return OrdInverse(static_cast<T>(step.negative != 0 ? order - magnitude : order + magnitude));
}

// The largest |d| - 1 that fits: -2^(8w-1) exists, +2^(8w-1) does not.
template <Unit T>
constexpr uint32_t MaxMagnitudeMinus1(uint32_t negative) {
  return negative != 0 ? uint32_t{kTopBit<T>} - 1u : uint32_t{kTopBit<T>} - 2u;
}

// Symbol and extra bits of a number: four buckets an octave (docs/patch-format.md, 3.3).
struct Bucket {
  uint32_t symbol;
  uint32_t extra_bits;
};

constexpr Bucket BucketOf(uint32_t value) {
  if (value < 4) return {value, 0};
  const auto h = static_cast<uint32_t>(std::bit_width(value)) - 1u;
  return {4 * (h - 2) + (value >> (h - 2)), h - 2};
}
// The first number of a bucket; its symbol must come from a number below 2^32: at most 123.
constexpr uint32_t BucketExtraBits(uint32_t symbol) { return symbol < 8 ? 0 : symbol / 4 - 1; }
constexpr uint32_t BucketStart(uint32_t symbol) {
  if (symbol < 8) return symbol;
  return (4 + symbol % 4) << BucketExtraBits(symbol);
}

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_UNIT_H_
