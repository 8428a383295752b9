// Anchors that are added to a version after its commit.
#ifndef ISTHMUS_UPKEEP_ANCHOR_H_
#define ISTHMUS_UPKEEP_ANCHOR_H_

#include "isthmus/base/file.h"
#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/board/board.h"

namespace isthmus::upkeep {

// Stores the checkpoint in `directory`, a replica or the trainer's own, as an anchor of the version
// whose bytes it is. Returns the bytes stored; 0 if the version has an anchor already. kNotFound:
// no such version. kInvalid: the checkpoint is another one. kConflict: it changed while it was
// read.
uint64_t AddAnchor(board::Board& board, const std::string& run, board::VersionNumber version,
                   const fs::path& directory, ThreadPool& pool, Progress& progress);

}  // namespace isthmus::upkeep

#endif  // ISTHMUS_UPKEEP_ANCHOR_H_
