// From two versions of some chunks to their payloads: chooses models and encodings.
#ifndef ISTHMUS_CODEC_CHUNK_ENCODE_H_
#define ISTHMUS_CODEC_CHUNK_ENCODE_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "isthmus/base/thread_pool.h"
#include "isthmus/codec/chunk.h"
#include "isthmus/codec/chunk_scan.h"
#include "isthmus/codec/layout.h"

namespace isthmus::codec {

// The encoding to use for every chunk; nullopt: for each chunk the one that is smallest. `direct`
// and `context` give way to raw for a chunk whose change they cannot hold within the format's
// payload limit.
using EncodingPolicy = std::optional<Encoding>;

struct EncodedChunk {
  Encoding encoding = Encoding::kRaw;
  std::shared_ptr<const Model> model;  // of sparse encodings
  ByteVector payload;                  // empty: the chunk did not change
};

// The bytes of a chunk, in `scratch` or elsewhere; called from the pool's threads.
using ChunkSource = std::function<ByteSpan(size_t chunk, ByteVector* scratch)>;

struct ChunkOutcome {
  std::vector<PieceScan> pieces;
  uint64_t changed = 0;  // units
  EncodedChunk encoded;
};

// Encodes chunks in batches. Keeps its memory from batch to batch; everything passed must outlive
// it. For one thread at a time.
class ChunkEncoder {
 public:
  // Without `digests` outcomes have no leaves and no sum changes.
  ChunkEncoder(const ChunkLayout& layout, EncodingPolicy policy, ChunkSource before,
               ChunkSource after, ThreadPool& pool, bool digests = true);
  ~ChunkEncoder();

  // These chunks, ascending, on the pool: looks at a sample of them to choose classes; scans,
  // hashes and orders their changes in one pass over both sides; counts symbols; codes. Chunks next
  // to each other in the list share a model where that is cheaper than one each.
  std::vector<ChunkOutcome> Encode(std::span<const size_t> chunks);

 private:
  struct Group;
  class Batch;

  const ChunkLayout& layout_;
  const EncodingPolicy policy_;
  const ChunkSource before_;
  const ChunkSource after_;
  ThreadPool& pool_;
  const bool digests_;
  std::vector<ChunkScan> scans_;
};

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_CHUNK_ENCODE_H_
