// What changed between two checkpoints, tensor by tensor.
#ifndef ISTHMUS_CODEC_DIFF_H_
#define ISTHMUS_CODEC_DIFF_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/codec/part.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::codec {

// The encoding to use for every tensor; nullopt: for each tensor the one that is smallest. `direct`
// gives way to raw for a tensor whose change it cannot hold within the format's payload limit.
using EncodingPolicy = std::optional<Encoding>;

// Why no patch can lead from one checkpoint to the other (a tensor lost, added, of another shape
// or dtype, moved to another shard or place, a header of another length, a changed file above the
// format's limit), in a phrase for the user; nullopt if one can. Reads names and sizes only (and
// the content of files above that limit).
std::optional<std::string> WhyNoPatch(const tensor::Checkpoint& base,
                                      const tensor::Checkpoint& next);

// The change of one whole tensor. entry.chunks has all its chunks, without offsets and digests.
struct TensorDiff {
  TensorEntry entry;
  std::vector<ByteVector> payloads;  // per chunk; empty where it did not change
  std::vector<uint64_t> changed;     // units, per chunk
};

// Adds a tensor's change to parts of about `part_bytes` of payload: calls `flush` whenever `part`
// has reached that size; flush must leave it empty. A large tensor is spread over parts by ranges
// of chunks.
void AddTensorChange(TensorDiff diff, uint64_t part_bytes, PartBuilder* part,
                     const std::function<void()>& flush);

struct DiffResult {
  tensor::VersionTable base;  // with digests computed from the bytes that were compared
  tensor::VersionTable next;
  uint64_t units = 0;
  uint64_t changed = 0;
  uint64_t tensors_changed = 0;
  std::map<std::string, uint64_t> encodings;  // name: tensors that use it
};

// Compares two checkpoints for which WhyNoPatch says nullopt (else kInvalid). One pass over both:
// scan, encode and digest while the bytes are in cache, on all threads of the pool. `sink` gets
// the changed tensors in order of their names, one at a time, from the calling thread.
// Memory: at most 4 MiB a thread, plus the payloads of a batch of tensors (256 MiB of tensor data,
// or one larger tensor). Throws kConflict if a checkpoint's files changed meanwhile.
DiffResult DiffCheckpoints(const tensor::Checkpoint& base, const tensor::Checkpoint& next,
                           EncodingPolicy policy, ThreadPool& pool, Progress& progress,
                           const std::function<void(TensorDiff)>& sink);

// Adds the files (and shard headers) that differ between the tables to a part.
void AddFileChanges(const tensor::Checkpoint& next, const tensor::VersionTable& base_table,
                    const tensor::VersionTable& next_table, PartBuilder* part);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_DIFF_H_
