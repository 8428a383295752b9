#include "isthmus/codec/old_units.h"

#include <algorithm>
#include <cstring>

#include "isthmus/codec/layout.h"
#include "isthmus/codec/scan.h"
#include "isthmus/codec/sparse.h"
#include "isthmus/tensor/position_sum.h"

namespace isthmus::codec {
namespace {

template <typename Unit>
void List(ByteSpan before, std::span<const uint32_t> positions, OldUnit* out) {
  for (const uint32_t position : positions) {
    *out++ = {position, LoadLe<Unit>(before.data() + position * sizeof(Unit))};
  }
}

template <typename Unit>
uint64_t Sum(std::span<const OldUnit> changes, ByteSpan after, uint64_t first_index) {
  uint64_t sum = 0;
  for (const OldUnit& old : changes) {
    sum += tensor::PositionSumChange(first_index + old.position, old.bits,
                                     LoadLe<Unit>(after.data() + old.position * sizeof(Unit)));
  }
  return sum;
}

}  // namespace

OldUnits::OldUnits() : units_(std::make_unique_for_overwrite<OldUnit[]>(kChunkUnits)) {}

void OldUnits::Compare(ByteSpan before, ByteSpan after, size_t unit_bytes) {
  positions_.resize(before.size() / unit_bytes + kScanSlack);
  count_ = ScanChanged(before, after, unit_bytes, 0, positions_.data());
  const std::span<const uint32_t> positions(positions_.data(), count_);
  if (unit_bytes == 1) return List<uint8_t>(before, positions, units_.get());
  if (unit_bytes == 2) return List<uint16_t>(before, positions, units_.get());
  List<uint32_t>(before, positions, units_.get());
}

void OldUnits::Sort() {
  OldUnit* const end = units_.get() + count_;
  for (OldUnit* begin = units_.get(); begin != end;) {
    const size_t block = begin->position / kBlockElements;
    OldUnit* const block_end = std::find_if(begin, end, [block](const OldUnit& unit) {
      return unit.position / kBlockElements != block;
    });
    std::sort(begin, block_end,
              [](const OldUnit& a, const OldUnit& b) { return a.position < b.position; });
    begin = block_end;
  }
}

std::span<const OldUnit> OldUnits::Within(uint64_t first, uint64_t units) const {
  const auto place = [this](uint64_t position) {
    return std::ranges::lower_bound(list(), position, {}, &OldUnit::position);
  };
  return {place(first), place(first + units)};
}

void PutBack(std::span<const OldUnit> changes, size_t unit_bytes, uint64_t first,
             MutableByteSpan range) {
  for (const OldUnit& old : changes) {
    std::memcpy(range.data() + (old.position - first) * unit_bytes, &old.bits, unit_bytes);
  }
}

uint64_t SumChange(std::span<const OldUnit> changes, ByteSpan after, size_t unit_bytes,
                   uint64_t first_index) {
  if (unit_bytes == 1) return Sum<uint8_t>(changes, after, first_index);
  if (unit_bytes == 2) return Sum<uint16_t>(changes, after, first_index);
  return Sum<uint32_t>(changes, after, first_index);
}

}  // namespace isthmus::codec
