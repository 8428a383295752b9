// The position-keyed sum: a content digest that adds up over parts of a tensor and can be updated
// from its changed units alone (docs/patch-format.md, section 1). Guards against faults, not
// forgery.
#ifndef ISTHMUS_TENSOR_POSITION_SUM_H_
#define ISTHMUS_TENSOR_POSITION_SUM_H_

#include <cstdint>
#include <span>

#include "isthmus/base/bytes.h"

namespace isthmus::tensor {

// The odd factor of unit `index` of a tensor: the finaliser of SplitMix64 (S. Vigna,
// https://prng.di.unimi.it/splitmix64.c) of the index, its lowest bit set. Odd factors have
// inverses modulo 2^64, so every single wrong unit changes the sum.
constexpr uint64_t PositionFactor(uint64_t index) {
  uint64_t z = (index + 1) * 0x9E37'79B9'7F4A'7C15u;
  z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
  return (z ^ (z >> 31)) | 1;
}

// The sum over units of 1, 2 or 4 bytes, the first of which is unit `first_index` of its tensor.
uint64_t PositionSum(ByteSpan units, size_t unit_bytes, uint64_t first_index);

// By how much the sum changes where unit `index` goes from one value to another.
constexpr uint64_t PositionSumChange(uint64_t index, uint64_t from, uint64_t to) {
  return PositionFactor(index) * (to - from);
}

// The same for the units at `positions` of both spans; the spans' first unit is unit `first_index`
// of its tensor (modulo 2^64: a span may begin before its tensor).
uint64_t PositionSumChange(ByteSpan before, ByteSpan after, size_t unit_bytes, uint64_t first_index,
                           std::span<const uint32_t> positions);

}  // namespace isthmus::tensor

#endif  // ISTHMUS_TENSOR_POSITION_SUM_H_
