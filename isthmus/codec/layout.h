// How a checkpoint is cut into chunks (docs/patch-format.md, section 1).
#ifndef ISTHMUS_CODEC_LAYOUT_H_
#define ISTHMUS_CODEC_LAYOUT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/codec/element.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::codec {

// Units [first_unit, first_unit + units) of a tensor, which stand at `chunk_unit` in their chunk.
struct Piece {
  size_t tensor = 0;
  uint64_t first_unit = 0;
  uint64_t units = 0;
  uint64_t chunk_unit = 0;
};

// One tensor, as far as the layout depends on it.
struct LayoutTensor {
  std::string_view name;
  tensor::Dtype dtype;
  uint64_t bytes;
};

// Immutable; const methods are thread-safe.
class ChunkLayout {
 public:
  // Pieces name tensors by their index in `tensors`.
  explicit ChunkLayout(const std::vector<LayoutTensor>& tensors);
  static ChunkLayout Of(const tensor::VersionTable& table);

  struct Chunk {
    tensor::Dtype dtype;
    uint64_t units;
    size_t first_piece;
    size_t piece_count;

    uint64_t bytes() const { return units * tensor::UnitBytes(dtype); }
  };
  const std::vector<Chunk>& chunks() const { return chunks_; }
  std::span<const Piece> Pieces(const Chunk& chunk) const {
    return std::span(pieces_).subspan(chunk.first_piece, chunk.piece_count);
  }
  // Whether the chunk is a pool of several tensors, or could be.
  bool IsPool(size_t chunk) const { return chunk >= first_pool_; }

 private:
  void Cut(size_t tensor, const LayoutTensor& info);
  void Pool(size_t tensor, const LayoutTensor& info);

  std::vector<Chunk> chunks_;
  std::vector<Piece> pieces_;
  size_t first_pool_ = 0;
};

// The name without its digits.
std::string FamilyOf(std::string_view name);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_LAYOUT_H_
