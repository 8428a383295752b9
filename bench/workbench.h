// The loops over one pair of steps that are timed.
#ifndef BENCH_WORKBENCH_H_
#define BENCH_WORKBENCH_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "bench/step_pairs.h"
#include "isthmus/codec/chunk_encode.h"
#include "isthmus/codec/layout.h"

namespace isthmus::bench {

// Holds the tensors of both steps in memory, chunk after chunk. Each loop goes once over all
// chunks, from memory to memory; none reads or writes a file.
class Workbench {
 public:
  explicit Workbench(const StepPair& pair);

  uint64_t bytes() const { return before_.size(); }  // of one step
  uint64_t changed() const { return changed_; }      // units

  // work = before. The reference of everything that writes a step's bytes.
  void Copy();
  // memcmp of before and work, which must be equal. It reads twice `bytes`, as all scans do.
  void CompareEqual();
  // ScanChanged, before and work.
  void ScanEqual();
  // ScanChanged, before and after: finds the positions of what changed.
  void ScanPair();
  // XXH3-128 leaves of one step, as content digests are made.
  void DigestLeaves();

  // From the two steps to payloads: all of ChunkEncoder, in the encoding that is smallest for each
  // chunk, but for content digests and sums; and the payloads' own digests. In batches as
  // `isthmus diff` has them.
  void Encode(ThreadPool& pool) { EncodeAll(false, pool); }
  // All that `isthmus diff` does to tensors: also XXH3-128 leaves of both steps, and the changes of
  // the position-keyed sums.
  void Diff(ThreadPool& pool) { EncodeAll(true, pool); }

  // The two following turn work into after, by the payloads of the last Encode or Diff: Copy first.
  // Decoding tables from models included, checks of digests not.
  void Apply(ThreadPool& pool);
  // All that a receiver does to tensors in memory: the payloads' digests, Apply, XXH3-128 leaves of
  // the result, and the changes of the position-keyed sums.
  void ApplyVerified(ThreadPool& pool);
  // Throws kInternal unless work is now `after`.
  void CheckApplied() const;

 private:
  struct Payload {
    codec::EncodedChunk encoded;
    uint64_t digest = 0;  // XXH3-64
  };
  ByteSpan ChunkAt(ByteSpan step, size_t chunk) const;
  MutableByteSpan WorkAt(size_t chunk);
  size_t ScanAll(ByteSpan other);
  void EncodeAll(bool digests, ThreadPool& pool);
  void ApplyChunkAt(size_t chunk, codec::OldUnits* old);
  void VerifyChunkAt(size_t chunk);

  codec::ChunkLayout layout_;
  std::vector<uint64_t> offsets_;        // of each chunk in the following
  std::unique_ptr<std::byte[]> memory_;  // of the following
  MutableByteSpan before_;
  MutableByteSpan after_;
  MutableByteSpan work_;
  std::vector<uint32_t> positions_;
  std::vector<Payload> payloads_;  // per chunk
  uint64_t changed_ = 0;
};

}  // namespace isthmus::bench

#endif  // BENCH_WORKBENCH_H_
