// What an apply overwrote. Digests that follow from changes alone and undo records need only this
// list, not a second copy of the chunk.
#ifndef ISTHMUS_CODEC_OLD_UNITS_H_
#define ISTHMUS_CODEC_OLD_UNITS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "isthmus/base/bytes.h"

namespace isthmus::codec {

// A changed unit: where it is, counted from the chunk's first one, and the bits that it had.
struct OldUnit {
  uint32_t position;
  uint32_t bits;
  friend bool operator==(const OldUnit&, const OldUnit&) = default;
};

// The changed units of one chunk, each once. Has room for all units of a chunk from the start, 8
// MiB of address space; memory only for those that were ever listed. Made to be used again and
// again.
class OldUnits {
 public:
  OldUnits();

  std::span<const OldUnit> list() const { return {units_.get(), count_}; }

  // For one that lists: writes to room(), at most kChunkUnits units, then tells how many.
  OldUnit* room() { return units_.get(); }
  void SetCount(size_t count) { count_ = count; }

  // Lists what differs between two states of a chunk, ascending.
  void Compare(ByteSpan before, ByteSpan after, size_t unit_bytes);
  // Calls `change` and lists, ascending, what it changed of the chunk: found by a copy and Compare,
  // for what cannot list its changes itself.
  template <typename Change>
  void Watch(ByteSpan chunk, size_t unit_bytes, const Change& change) {
    before_.assign(chunk.begin(), chunk.end());
    change();
    Compare(before_, chunk, unit_bytes);
  }

  // Sorts by position what is sorted but for the order within kBlockElements units (sparse.h), as
  // the lists of sparse payloads are.
  void Sort();
  // The changes of units [first, first + units), sorted or else cut at multiples of kBlockElements
  // or ends of the chunk only.
  std::span<const OldUnit> Within(uint64_t first, uint64_t units) const;

 private:
  std::unique_ptr<OldUnit[]> units_;
  std::vector<uint32_t> positions_;  // of Compare
  ByteVector before_;                // of Watch
  size_t count_ = 0;
};

// Puts the units back: `range` begins with unit `first` of the chunk and holds all of `changes`.
void PutBack(std::span<const OldUnit> changes, size_t unit_bytes, uint64_t first,
             MutableByteSpan range);

// By how much a position-keyed sum (tensor/position_sum.h) changes where `changes` became what
// `after` holds, the chunk's new bytes, whose first unit is unit `first_index` of its tensor
// (modulo 2^64: a chunk may begin before a tensor).
uint64_t SumChange(std::span<const OldUnit> changes, ByteSpan after, size_t unit_bytes,
                   uint64_t first_index);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_OLD_UNITS_H_
