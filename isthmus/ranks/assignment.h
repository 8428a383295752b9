// Which rank does what of a version that many publish together (docs/ranks.md, "What belongs to
// whom"). Pure: the same claims give the same assignment on every rank.
#ifndef ISTHMUS_RANKS_ASSIGNMENT_H_
#define ISTHMUS_RANKS_ASSIGNMENT_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "isthmus/codec/layout.h"
#include "isthmus/ranks/share.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::ranks {

inline constexpr uint32_t kMaxRanks = 65'536;

// Units [first, first + units) of a tensor, named by its index in the version table.
struct Holding {
  uint32_t rank = 0;
  size_t tensor = 0;
  uint64_t first = 0;
  uint64_t units = 0;
  auto operator<=>(const Holding&) const = default;
};

// The same as rows; kInvalid if the version has no such tensor, or one of another dtype or shape,
// or the rows do not begin and end at whole bytes.
Holding HoldingOf(const tensor::VersionTable& outline, uint32_t rank, const HeldRows& rows);

// Units of a chunk that one rank holds and another one owns.
struct Slice {
  size_t chunk = 0;
  uint64_t first = 0;  // unit of the chunk
  uint64_t units = 0;
  auto operator<=>(const Slice&) const = default;
};

// Immutable; const methods are thread-safe.
class Assignment {
 public:
  // kInvalid, naming the tensor, the rows and the ranks, unless `holdings` (in any order) cover
  // every unit of every tensor exactly once, by ranks below `ranks`.
  Assignment(const tensor::VersionTable& outline, std::vector<Holding> holdings, uint32_t ranks);

  const codec::ChunkLayout& layout() const { return layout_; }
  // Units of the chunk that one rank holds, next to each other.
  struct Range {
    uint32_t rank;
    uint64_t first;
    uint64_t units;
  };
  // Ascending, the whole chunk.
  std::span<const Range> Holders(size_t chunk) const;
  uint32_t Owner(size_t chunk) const { return owners_[chunk]; }
  // Ascending.
  const std::vector<size_t>& OwnedBy(uint32_t rank) const { return owned_[rank]; }
  // What the rank holds of others' chunks, by owner; ascending.
  const std::map<uint32_t, std::vector<Slice>>& SlicesOf(uint32_t rank) const {
    return slices_[rank];
  }

 private:
  void FindHolders(const std::vector<Holding>& holdings);
  void ChooseOwners();

  codec::ChunkLayout layout_;
  std::vector<Range> ranges_;                                   // by chunk
  std::vector<size_t> first_range_;                             // per chunk, and the end
  std::vector<uint32_t> owners_;                                // per chunk
  std::vector<std::vector<size_t>> owned_;                      // per rank
  std::vector<std::map<uint32_t, std::vector<Slice>>> slices_;  // per rank
};

}  // namespace isthmus::ranks

#endif  // ISTHMUS_RANKS_ASSIGNMENT_H_
