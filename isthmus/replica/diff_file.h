// What changed between two checkpoints, as one patch file.
#ifndef ISTHMUS_REPLICA_DIFF_FILE_H_
#define ISTHMUS_REPLICA_DIFF_FILE_H_

#include <cstdint>

#include "isthmus/base/file.h"
#include "isthmus/codec/diff.h"

namespace isthmus::replica {

// Writes a finished part as a patch file that is whole or absent; returns its size. kInvalid if
// something else than a file has the name.
uint64_t WritePatchFile(codec::PartBuilder* part, const codec::VersionPair& versions,
                        const fs::path& path);

struct DiffFileResult {
  codec::DiffResult diff;
  uint64_t checkpoint_bytes = 0;  // of the new one
  uint64_t patch_bytes = 0;
};

// Compares the checkpoints of two directories and writes the patch from the one to the other.
// Errors as codec::DiffCheckpoints; then no file was written.
DiffFileResult DiffToFile(const fs::path& base, const fs::path& next, const fs::path& patch,
                          codec::EncodingPolicy policy, ThreadPool& pool, Progress& progress);

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_DIFF_FILE_H_
