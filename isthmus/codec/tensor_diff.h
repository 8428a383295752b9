// One tensor's way through the diff: scan and encode its chunks, then choose its encoding.
#ifndef ISTHMUS_CODEC_TENSOR_DIFF_H_
#define ISTHMUS_CODEC_TENSOR_DIFF_H_

#include <cstdint>
#include <vector>

#include "isthmus/codec/diff.h"

namespace isthmus::codec {

// What the scan of one chunk found.
struct ChunkScan {
  uint64_t changed = 0;  // units
  std::vector<Xxh128Digest> old_leaves;
  std::vector<Xxh128Digest> new_leaves;
  ByteVector direct;  // the `direct` payload; empty if nothing changed
};

// Compares one chunk, hashes both sides and encodes the change as `direct`, in pieces that stay in
// cache. Thread-safe. `want_direct` false leaves the payload out.
ChunkScan ScanChunk(ByteSpan before, ByteSpan after, size_t unit_bytes, bool want_direct);

// Puts the chunks of a tensor together; picks the encoding by cost (exact for direct, sampled for
// raw and xor), and encodes again on the pool if that is another one than direct.
// Empty payloads are unchanged chunks.
TensorDiff AssembleTensor(const tensor::TensorInfo& info, ByteSpan before, ByteSpan after,
                          EncodingPolicy policy, std::vector<ChunkScan> chunks, ThreadPool& pool);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_TENSOR_DIFF_H_
