// Elements, keys, steps and buckets: how a change of bits becomes small numbers
// (docs/patch-format.md, 3.3).
#ifndef ISTHMUS_CODEC_ELEMENT_H_
#define ISTHMUS_CODEC_ELEMENT_H_

#include <bit>
#include <cstdint>
#include <type_traits>

#include "isthmus/tensor/dtype.h"

namespace isthmus::codec {

// Units of one chunk at most.
inline constexpr uint64_t kChunkUnits = uint64_t{1} << 20;

// What a sparse payload counts. Stored in models: explicit values.
enum class Elements : uint8_t {
  kUnits = 0,
  kCodes4 = 1,  // 4-bit codes, two in a byte, the low four bits first
};

constexpr uint32_t ElementBits(Elements elements, tensor::Dtype dtype) {
  return elements == Elements::kCodes4 ? 4 : static_cast<uint32_t>(8 * tensor::UnitBytes(dtype));
}

// An element of kBits bits is held in the smallest integer that it fits.
template <uint32_t kBits>
  requires(kBits == 4 || kBits == 8 || kBits == 16 || kBits == 32)
struct Element {
  using Bits =
      std::conditional_t<kBits <= 8, uint8_t, std::conditional_t<kBits == 16, uint16_t, uint32_t>>;
  static constexpr Bits kTopBit = static_cast<Bits>(Bits{1} << (kBits - 1));
  static constexpr Bits kMask = static_cast<Bits>(kTopBit | (kTopBit - 1));

  // The bijection that orders floats by value, and its inverse. Without branches: signs are random,
  // and decoders call this for every change.
  static constexpr Bits Ord(Bits bits) {
    return static_cast<Bits>(bits ^ (kTopBit | AllIfTop(bits)));
  }
  static constexpr Bits OrdInverse(Bits order) {
    return static_cast<Bits>(order ^ (kTopBit | (~AllIfTop(order) & kMask)));
  }
  // kMask if the top bit is set, else 0.
  static constexpr uint32_t AllIfTop(Bits bits) {
    return (0u - (static_cast<uint32_t>(bits) >> (kBits - 1))) & kMask;
  }
  // The largest |d| - 1 that fits: -2^(b-1) exists, +2^(b-1) does not.
  static constexpr uint32_t MaxMagnitudeMinus1(uint32_t negative) {
    return uint32_t{kTopBit} - 2u + negative;
  }
};

// A step d = ord(new) - ord(old), never 0, as 2 (|d| - 1) + (1 if d < 0): 32 bits hold every one.
using PackedStep = uint32_t;

template <uint32_t kBits>
constexpr PackedStep StepBetween(typename Element<kBits>::Bits old_bits,
                                 typename Element<kBits>::Bits new_bits) {
  using E = Element<kBits>;
  using Bits = typename E::Bits;
  const uint32_t difference = static_cast<Bits>(E::Ord(new_bits) - E::Ord(old_bits)) & E::kMask;
  // The magnitude less 1 is difference - 1, or ~difference if that is negative: without a branch,
  // for signs are random. The value with only the top bit set is -2^(b-1).
  const uint32_t negative = difference >> (kBits - 1);
  const uint32_t complement = (0u - negative) & E::kMask;
  return (((difference ^ complement) - 1u + negative) << 1) | negative;
}

template <uint32_t kBits>
constexpr typename Element<kBits>::Bits TakeStep(typename Element<kBits>::Bits old_bits,
                                                 PackedStep step) {
  using E = Element<kBits>;
  using Bits = typename E::Bits;
  const uint32_t negate = 0u - (step & 1);
  const uint32_t difference = (((step >> 1) + 1u) ^ negate) - negate;
  return E::OrdInverse(static_cast<Bits>((E::Ord(old_bits) + difference) & E::kMask));
}

// Bucket and extra bits of a number; kM: 2^kM buckets an octave.
inline constexpr uint32_t kGapM = 1;
inline constexpr uint32_t kStepM = 2;
struct Bucket {
  uint32_t bucket;
  uint32_t extra_bits;
};
template <uint32_t kM>
constexpr Bucket BucketOf(uint32_t value) {
  // Numbers below 2^(kM + 1) are their own buckets; written so that no branch depends on them.
  constexpr uint32_t kOwn = (2u << kM) - 1;
  const uint32_t extra = static_cast<uint32_t>(std::bit_width(value | kOwn)) - 1u - kM;
  return {(extra << kM) + (value >> extra), extra};
}
template <uint32_t kM>
constexpr uint32_t BucketExtraBits(uint32_t bucket) {
  return bucket < (2u << kM) ? 0 : (bucket >> kM) - 1;
}
// The first number of a bucket.
template <uint32_t kM>
constexpr uint32_t BucketStart(uint32_t bucket) {
  const uint32_t extra = BucketExtraBits<kM>(bucket);
  return (bucket - (extra << kM)) << extra;
}

// Elements of a chunk: at most 2^20 units of 4 bytes, as 4-bit codes.
inline constexpr uint32_t kMaxChunkElements = uint32_t{1} << 23;
inline constexpr uint32_t kMaxGapBuckets = BucketOf<kGapM>(kMaxChunkElements - 1).bucket + 1;
inline constexpr uint32_t kMaxStepBuckets = BucketOf<kStepM>(0x7FFF'FFFFu).bucket + 1;
static_assert(kMaxGapBuckets == 46 && kMaxStepBuckets == 120);

// The key of an element: the top byte of its bits shifted left by `shift`, masked.
struct KeyRule {
  uint8_t shift = 0;
  uint8_t mask = 0xFF;
};
KeyRule KeyRuleOf(Elements elements, tensor::Dtype dtype);

// kBits of 4: the "top byte" is the code itself.
template <uint32_t kBits>
constexpr uint8_t KeyOf(typename Element<kBits>::Bits bits, KeyRule rule) {
  constexpr uint32_t kDown = kBits <= 8 ? 0 : kBits - 8;
  return static_cast<uint8_t>((static_cast<uint32_t>(bits) << rule.shift >> kDown) & rule.mask);
}

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_ELEMENT_H_
