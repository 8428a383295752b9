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

}  // namespace

uint64_t PositionSum(ByteSpan units, size_t unit_bytes, uint64_t first_index) {
  if (unit_bytes == 1) return Sum<uint8_t>(units, first_index);
  if (unit_bytes == 2) return Sum<uint16_t>(units, first_index);
  return Sum<uint32_t>(units, first_index);
}

}  // namespace isthmus::tensor
