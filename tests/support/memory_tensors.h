// Tensors in memory, in chunks.
#ifndef ISTHMUS_TESTS_SUPPORT_MEMORY_TENSORS_H_
#define ISTHMUS_TESTS_SUPPORT_MEMORY_TENSORS_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/codec/chunk_differ.h"
#include "isthmus/codec/layout.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::testing {

struct MemoryTensors {
  tensor::VersionTable table;
  std::vector<ByteVector> data;  // of table.tensors

  // Names must ascend.
  void Add(const std::string& name, tensor::Dtype dtype, ByteVector bytes) {
    const uint64_t elements = bytes.size() * 8 / tensor::BitsOf(dtype);
    if (table.shards.empty()) table.shards.push_back({"model.safetensors", {}});
    table.tensors.push_back({name, dtype, {elements}, "model.safetensors", {}});
    data.push_back(std::move(bytes));
  }

  codec::ChunkLayout layout() const { return codec::ChunkLayout::Of(table); }

  ByteVector Chunk(const codec::ChunkLayout& layout, size_t number) const {
    const codec::ChunkLayout::Chunk& chunk = layout.chunks()[number];
    const size_t unit_bytes = tensor::UnitBytes(chunk.dtype);
    ByteVector bytes;
    for (const codec::Piece& piece : layout.Pieces(chunk)) {
      const auto from =
          data[piece.tensor].begin() + static_cast<std::ptrdiff_t>(piece.first_unit * unit_bytes);
      bytes.insert(bytes.end(), from, from + static_cast<std::ptrdiff_t>(piece.units * unit_bytes));
    }
    return bytes;
  }

  // These tensors must outlive it.
  codec::ChunkSource Source() const {
    return [this, all = layout()](size_t number, ByteVector* scratch) -> ByteSpan {
      *scratch = Chunk(all, number);
      return *scratch;
    };
  }
};

// The part that leads from one version to the other.
inline ByteVector PartBetween(const MemoryTensors& before, const MemoryTensors& after,
                              codec::EncodingPolicy policy, ThreadPool& pool) {
  codec::PartBuilder builder;
  codec::DiffChunks(
      {before.table, after.table, before.Source(), after.Source()}, policy, pool, NoProgress(),
      [&builder](codec::ChunkDiff diff) { codec::AddChunkDiff(std::move(diff), &builder); });
  ByteVector bytes;
  builder.Finish(std::nullopt, [&bytes](ByteSpan piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_MEMORY_TENSORS_H_
