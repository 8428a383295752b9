// A patch in a file, applied to a checkpoint that follows no board.
#ifndef ISTHMUS_REPLICA_PATCH_FILE_H_
#define ISTHMUS_REPLICA_PATCH_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"

namespace isthmus::replica {

struct PatchFileResult {
  uint64_t tensors = 0;   // that the patch changes
  uint64_t changed = 0;   // units
  uint64_t verified = 0;  // tensors, all of them
  std::vector<std::string> notes;
};

// Applies the patch file to the checkpoint in `directory`, in place. The base is hashed first: a
// wrong one is refused (kCorrupt, naming both digests) before the first byte is written. Journaled:
// a call that a crash interrupted is taken back by the next one on this checkpoint
// (RecoverCheckpoint).
PatchFileResult ApplyPatchInPlace(const fs::path& patch, const fs::path& directory,
                                  ThreadPool& pool, Progress& progress);

// Writes the result to the new directory `out` instead (kConflict if it exists). It appears whole
// or not at all.
PatchFileResult ApplyPatchTo(const fs::path& patch, const fs::path& directory, const fs::path& out,
                             ThreadPool& pool, Progress& progress);

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_PATCH_FILE_H_
