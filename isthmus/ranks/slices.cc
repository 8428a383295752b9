#include "isthmus/ranks/slices.h"

#include <fmt/format.h>

#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/codec/chain.h"
#include "isthmus/codec/chunk_differ.h"
#include "isthmus/ranks/messages.h"

namespace isthmus::ranks {
namespace {

using codec::ChunkLayout;
using tensor::Dtype;
using tensor::VersionTable;

constexpr std::string_view kShard = "slices";

// A dtype whose elements are the units of this one.
Dtype DtypeOfUnits(Dtype dtype) {
  if (tensor::BitsOf(dtype) == 8 * tensor::UnitBytes(dtype)) return dtype;
  return tensor::UnitBytes(dtype) == 1 ? Dtype::kU8 : Dtype::kU32;
}

// The slices as tensors of a checkpoint, in their order.
VersionTable TableOf(const ChunkLayout& layout, const std::vector<Slice>& slices) {
  VersionTable table;
  table.shards.push_back({std::string(kShard), {}});
  for (const Slice& slice : slices) {
    table.tensors.push_back({fmt::format("{:010}.{:07}", slice.chunk, slice.first),
                             DtypeOfUnits(layout.chunks()[slice.chunk].dtype),
                             {slice.units},
                             std::string(kShard),
                             {}});
  }
  return table;
}

// Slices in memory, as chunks of their own checkpoint.
class SliceChunks {
 public:
  SliceChunks(const ChunkLayout& layout, const std::vector<Slice>& slices, const CopySlice& copy) {
    for (const Slice& slice : slices) {
      bytes_.emplace_back(slice.units * tensor::UnitBytes(layout.chunks()[slice.chunk].dtype));
      copy(slice, bytes_.back());
    }
  }

  // A chunk of `layout`, the slices' own.
  ByteSpan Read(const ChunkLayout& layout, size_t chunk, ByteVector* scratch) const {
    const auto& info = layout.chunks()[chunk];
    const size_t unit = tensor::UnitBytes(info.dtype);
    scratch->resize(info.bytes());
    for (const codec::Piece& piece : layout.Pieces(info)) {
      const auto from = ByteSpan(bytes_[piece.tensor]).subspan(piece.first_unit * unit);
      std::ranges::copy(from.first(piece.units * unit),
                        scratch->begin() + static_cast<std::ptrdiff_t>(piece.chunk_unit * unit));
    }
    return *scratch;
  }

  void Write(const ChunkLayout& layout, size_t chunk, ByteSpan content) {
    const auto& info = layout.chunks()[chunk];
    const size_t unit = tensor::UnitBytes(info.dtype);
    for (const codec::Piece& piece : layout.Pieces(info)) {
      const auto to = MutableByteSpan(bytes_[piece.tensor]).subspan(piece.first_unit * unit);
      std::ranges::copy(content.subspan(piece.chunk_unit * unit, piece.units * unit), to.begin());
    }
  }

  Sha256Digest Digest(VersionTable table) const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      table.tensors[i].digest = tensor::TensorDigest(bytes_[i]);
    }
    return table.Digest();
  }

  std::vector<ByteVector> Release() { return std::move(bytes_); }

 private:
  std::vector<ByteVector> bytes_;  // per slice
};

}  // namespace

ByteVector EncodeSlices(const ChunkLayout& layout, const std::vector<Slice>& slices,
                        const CopySlice& before, const CopySlice& after,
                        codec::EncodingPolicy policy, ThreadPool& pool) {
  const VersionTable table = TableOf(layout, slices);
  const ChunkLayout own = ChunkLayout::Of(table);
  const SliceChunks old_bytes(layout, slices, before);
  const SliceChunks new_bytes(layout, slices, after);
  codec::PartBuilder part;
  const codec::DiffResult diff = codec::DiffChunks(
      {table, table,
       [&](size_t chunk, ByteVector* scratch) { return old_bytes.Read(own, chunk, scratch); },
       [&](size_t chunk, ByteVector* scratch) { return new_bytes.Read(own, chunk, scratch); }},
      policy, pool, NoProgress(),
      [&](codec::ChunkDiff change) { codec::AddChunkDiff(std::move(change), &part); });
  ByteVector bytes;
  part.Finish(codec::VersionPair{diff.base.Digest(), diff.next.Digest()},
              [&](ByteSpan piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  return bytes;
}

std::vector<ByteVector> DecodeSlices(const ChunkLayout& layout, const std::vector<Slice>& slices,
                                     const CopySlice& before, ByteSpan bytes, uint32_t rank) {
  const VersionTable table = TableOf(layout, slices);
  SliceChunks chunks(layout, slices, before);
  const codec::Part part = codec::Part::Open(bytes);
  if (!part.versions() || part.versions()->base != chunks.Digest(table)) {
    throw WrongBaselines(
        ErrorCode::kCorrupt,
        fmt::format("take the slices of rank {}: it compared with other old bytes", rank));
  }
  const codec::Chain chain(table, {{&part}});
  ByteVector scratch;
  for (size_t chunk = 0; chunk < chain.layout().chunks().size(); ++chunk) {
    if (!chain.Touches(chunk)) continue;
    chunks.Read(chain.layout(), chunk, &scratch);
    chain.FoldChunk(chunk, scratch);
    chunks.Write(chain.layout(), chunk, scratch);
  }
  if (part.versions()->target != chunks.Digest(table)) {
    Throw(ErrorCode::kCorrupt, "take the slices of rank {}: they are not what it sent", rank);
  }
  return chunks.Release();
}

}  // namespace isthmus::ranks
