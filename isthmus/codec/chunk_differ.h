// The pass of the diff over all chunks, wherever the two versions come from.
#ifndef ISTHMUS_CODEC_CHUNK_DIFFER_H_
#define ISTHMUS_CODEC_CHUNK_DIFFER_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/codec/chunk_encode.h"
#include "isthmus/codec/part.h"

namespace isthmus::codec {

// The change of one chunk.
struct ChunkDiff {
  uint64_t number = 0;
  std::vector<TensorEntry> tensors;  // what it does to the tensors that it changes
  EncodedChunk encoded;
};

void AddChunkDiff(ChunkDiff diff, PartBuilder* part);

// What the encoder found in a chunk, of tensors as `table` names them. Without a payload if the
// chunk did not change.
ChunkDiff ToChunkDiff(const tensor::VersionTable& table, const ChunkLayout& layout, size_t chunk,
                      ChunkOutcome outcome);

// Encodes these chunks, ascending, a batch at a time. `take` gets each outcome in their order, from
// the calling thread. Memory: 40 MiB a thread, and 11 bytes for each changed element of a batch of
// 64 chunks.
void EncodeInBatches(ChunkEncoder& encoder, std::span<const size_t> chunks,
                     const std::function<void(size_t chunk, ChunkOutcome outcome)>& take);

struct DiffResult {
  tensor::VersionTable base;  // with digests computed from the bytes that were compared
  tensor::VersionTable next;
  uint64_t units = 0;
  uint64_t changed = 0;
  uint64_t tensors_changed = 0;
  std::map<std::string, uint64_t> encodings;  // name: chunks that use it
};

// As manifests name them: "context+raw".
std::string JoinEncodings(const std::map<std::string, uint64_t>& encodings);

// Both versions of everything that is compared.
struct DiffSides {
  tensor::VersionTable base;  // the tensors' digests do not matter
  tensor::VersionTable next;  // the same tensors
  ChunkSource before;         // of ChunkLayout::Of(base)
  ChunkSource after;
};

// Compares and encodes all chunks (EncodeInBatches), on all threads of the pool. `sink` gets the
// changed ones in their order, one at a time, from the calling thread. The payloads depend neither
// on SIMD targets nor on the number of threads.
DiffResult DiffChunks(DiffSides sides, EncodingPolicy policy, ThreadPool& pool, Progress& progress,
                      const std::function<void(ChunkDiff)>& sink);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_CHUNK_DIFFER_H_
