// What changed between two checkpoints.
#ifndef ISTHMUS_CODEC_DIFF_H_
#define ISTHMUS_CODEC_DIFF_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/codec/chain.h"
#include "isthmus/codec/chunk_differ.h"
#include "isthmus/codec/part.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::codec {

// Why no patch can lead from one checkpoint to the other (a tensor lost, added, of another shape
// or dtype, moved to another shard or place, a header of another length, a changed file above the
// format's limit), in a phrase for the user; nullopt if one can. Reads names and sizes only (and
// the content of files above that limit).
std::optional<std::string> WhyNoPatch(const tensor::Checkpoint& base,
                                      const tensor::Checkpoint& next);

// Compares two checkpoints for which WhyNoPatch says nullopt (else kInvalid), as DiffChunks does.
// Throws kConflict if a checkpoint's files changed meanwhile.
DiffResult DiffCheckpoints(const tensor::Checkpoint& base, const tensor::Checkpoint& next,
                           EncodingPolicy policy, ThreadPool& pool, Progress& progress,
                           const std::function<void(ChunkDiff)>& sink);

// Adds the files (and shard headers) that differ between the tables to a part.
void AddFileChanges(const tensor::Checkpoint& next, const tensor::VersionTable& base_table,
                    const tensor::VersionTable& next_table, PartBuilder* part);

// One patch instead of several: what DiffCheckpoints would give for `base` and the version that
// `patches`, oldest first, lead to, byte for byte, though that version lies nowhere. Adds the files
// to `part`. The result's tables say where the patches begin and lead; nothing else checks that
// they belong to this base. Throws kCorrupt as Chain does.
DiffResult SquashPatches(const tensor::Checkpoint& base, const std::vector<Patch>& patches,
                         EncodingPolicy policy, ThreadPool& pool, Progress& progress,
                         const std::function<void(ChunkDiff)>& sink, PartBuilder* part);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_DIFF_H_
