// The first pass of the diff over a chunk: what changed, and the digests of both sides.
#ifndef ISTHMUS_CODEC_CHUNK_SCAN_H_
#define ISTHMUS_CODEC_CHUNK_SCAN_H_

#include <cstdint>
#include <vector>

#include "isthmus/codec/layout.h"
#include "isthmus/codec/sparse.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::codec {

// What the scan found in one piece of a chunk.
struct PieceScan {
  uint64_t changed = 0;  // units
  uint64_t sum_change = 0;
  std::vector<Xxh128Digest> old_leaves;
  std::vector<Xxh128Digest> new_leaves;
};

struct ChunkScan {
  std::vector<PieceScan> pieces;
  uint64_t changed = 0;   // units
  uint64_t elements = 0;  // of the chunk
  SparseEvents events;    // empty unless they were asked for
};

// What to do beside finding changes.
struct ScanRequest {
  bool digests = true;                   // else leaves stay empty and sum changes 0
  const ClassRule* rule = nullptr;       // put the changes in order by these classes
  Elements elements = Elements::kUnits;  // which the rule is for
};

// A piece's bytes in a checkpoint.
ByteSpan PieceBytes(const tensor::Checkpoint& checkpoint, const Piece& piece, size_t unit_bytes);

// The chunk's bytes in a checkpoint: a view into it, or a copy in `scratch` if it has several
// pieces.
ByteSpan ChunkBytes(const tensor::Checkpoint& checkpoint, const ChunkLayout& layout, size_t chunk,
                    ByteVector* scratch);

// Compares, hashes and orders in one pass over both sides, in strips that stay in cache.
// Replaces what `scan` holds, and uses its memory again. Thread-safe.
void ScanChunk(const ChunkLayout& layout, size_t chunk, ByteSpan before, ByteSpan after,
               const ScanRequest& request, ChunkScan* scan);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_CHUNK_SCAN_H_
