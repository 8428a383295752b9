// Checkpoint directories from memory.
#ifndef ISTHMUS_TENSOR_CHECKPOINT_WRITE_H_
#define ISTHMUS_TENSOR_CHECKPOINT_WRITE_H_

#include <cstdint>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/base/progress.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::tensor {

// Writes a checkpoint, wherever its tensors lie, as the files of a new directory: byte for byte the
// files that it describes. Nothing is synced. kUnavailable if there is no room.
void WriteCheckpoint(const Checkpoint& checkpoint, const fs::path& directory, Progress& progress);

// Makes, in a new or existing directory, the shards and the index of a checkpoint with these
// tensors (begin and end do not matter), all zeros: files with holes, which take no room on most
// file systems. They lie by name in shards of at most `shard_bytes`, more only for a tensor that is
// larger by itself; so the layout depends on names, dtypes and shapes alone. It is for
// Checkpoint::OpenWithData. kInvalid: a name twice, or one that no file may have.
void WriteEmptyCheckpoint(std::vector<TensorInfo> tensors, uint64_t shard_bytes,
                          const fs::path& directory);

}  // namespace isthmus::tensor

#endif  // ISTHMUS_TENSOR_CHECKPOINT_WRITE_H_
