#include "isthmus/ranks/new_chunks.h"

#include <algorithm>

#include "isthmus/base/error.h"

namespace isthmus::ranks {

NewChunks::NewChunks(const Assignment& assignment, uint32_t rank,
                     const std::vector<ShareTensor>& share, const std::vector<Holding>& holdings)
    : assignment_(assignment), rank_(rank) {
  for (size_t i = 0; i < share.size(); ++i) {
    if (holdings[i].units == 0) continue;
    held_[holdings[i].tensor].push_back({holdings[i].first, share[i].bytes});
  }
  for (auto& [tensor, held] : held_) std::ranges::sort(held, {}, &Held::first);
}

ByteSpan NewChunks::HeldFrom(size_t tensor, uint64_t unit, size_t unit_bytes) const {
  const std::vector<Held>& held = held_.at(tensor);
  const auto after = std::ranges::upper_bound(held, unit, {}, &Held::first);
  const Held& found = *std::prev(after);
  return found.bytes.subspan((unit - found.first) * unit_bytes);
}

void NewChunks::CopyHeld(const Slice& slice, MutableByteSpan to) const {
  const codec::ChunkLayout& layout = assignment_.layout();
  const auto& chunk = layout.chunks()[slice.chunk];
  const size_t unit_bytes = tensor::UnitBytes(chunk.dtype);
  const uint64_t end = slice.first + slice.units;
  for (const codec::Piece& piece : layout.Pieces(chunk)) {
    uint64_t from = std::max(slice.first, piece.chunk_unit);
    const uint64_t piece_end = std::min(end, piece.chunk_unit + piece.units);
    while (from < piece_end) {
      const ByteSpan bytes =
          HeldFrom(piece.tensor, piece.first_unit + from - piece.chunk_unit, unit_bytes);
      const uint64_t units = std::min(piece_end - from, bytes.size() / unit_bytes);
      const auto place = to.subspan((from - slice.first) * unit_bytes, units * unit_bytes);
      std::ranges::copy(bytes.first(place.size()), place.begin());
      from += units;
    }
  }
}

void NewChunks::Receive(const Slice& slice, ByteVector bytes) {
  received_[slice] = std::move(bytes);
}

// A chunk of one tensor that lies in the share as a whole.
std::optional<ByteSpan> NewChunks::View(size_t chunk) const {
  const auto& info = assignment_.layout().chunks()[chunk];
  const auto pieces = assignment_.layout().Pieces(info);
  if (pieces.size() != 1 || assignment_.Holders(chunk).size() != 1) return std::nullopt;
  const ByteSpan bytes =
      HeldFrom(pieces.front().tensor, pieces.front().first_unit, tensor::UnitBytes(info.dtype));
  if (bytes.size() < info.bytes()) return std::nullopt;
  return bytes.first(info.bytes());
}

ByteSpan NewChunks::Owned(size_t chunk, ByteVector* scratch) const {
  if (const auto view = View(chunk)) return *view;
  const auto& info = assignment_.layout().chunks()[chunk];
  const size_t unit_bytes = tensor::UnitBytes(info.dtype);
  scratch->resize(info.bytes());
  for (const Assignment::Range& range : assignment_.Holders(chunk)) {
    const auto to =
        MutableByteSpan(*scratch).subspan(range.first * unit_bytes, range.units * unit_bytes);
    const Slice slice = {chunk, range.first, range.units};
    if (range.rank == rank_) {
      CopyHeld(slice, to);
    } else {
      std::ranges::copy(received_.at(slice), to.begin());
    }
  }
  return *scratch;
}

}  // namespace isthmus::ranks
