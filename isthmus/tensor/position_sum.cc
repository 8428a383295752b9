#include "isthmus/tensor/position_sum.h"

namespace isthmus::tensor {
namespace {

template <typename Unit>
uint64_t Sum(ByteSpan units, uint64_t first_index) {
  uint64_t sum = 0;
  for (size_t i = 0; i < units.size() / sizeof(Unit); ++i) {
    sum += PositionFactor(first_index + i) * LoadLe<Unit>(units.data() + i * sizeof(Unit));
  }
  return sum;
}

template <typename Unit>
uint64_t SumChange(ByteSpan before, ByteSpan after, uint64_t first_index,
                   std::span<const uint32_t> positions) {
  uint64_t change = 0;
  for (const uint32_t position : positions) {
    change += PositionSumChange(first_index + position,
                                LoadLe<Unit>(before.data() + position * sizeof(Unit)),
                                LoadLe<Unit>(after.data() + position * sizeof(Unit)));
  }
  return change;
}

}  // namespace

uint64_t PositionSum(ByteSpan units, size_t unit_bytes, uint64_t first_index) {
  if (unit_bytes == 1) return Sum<uint8_t>(units, first_index);
  if (unit_bytes == 2) return Sum<uint16_t>(units, first_index);
  return Sum<uint32_t>(units, first_index);
}

uint64_t PositionSumChange(ByteSpan before, ByteSpan after, size_t unit_bytes, uint64_t first_index,
                           std::span<const uint32_t> positions) {
  if (unit_bytes == 1) return SumChange<uint8_t>(before, after, first_index, positions);
  if (unit_bytes == 2) return SumChange<uint16_t>(before, after, first_index, positions);
  return SumChange<uint32_t>(before, after, first_index, positions);
}

}  // namespace isthmus::tensor
