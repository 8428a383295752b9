// Runs that start from a version of another run (docs/board.md, "Forks").
#ifndef ISTHMUS_UPKEEP_FORK_H_
#define ISTHMUS_UPKEEP_FORK_H_

#include <string>

#include "isthmus/base/file.h"
#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/board/board.h"

namespace isthmus::upkeep {

struct ForkRequest {
  board::ForkPoint from;
  std::string run;  // the new one
  // A replica or the trainer's own checkpoint that is the version: needed if it has no anchor.
  // Empty: there is none.
  fs::path checkpoint;
};

struct ForkResult {
  board::Manifest manifest;   // version 1 of the new run, as committed
  uint64_t stored_bytes = 0;  // of the anchor that the parent's version got; 0: it had one
};

// Commits version 1 of the new run: the bytes of the parent's version, as an anchor whose objects
// are the parent's. A first version that is a fork itself counts as the version that it was forked
// from. kNotFound: no such version, or an object is missing. kConflict: the version is revoked; the
// new run has a version; or a cleaning of the parent takes the objects meanwhile, which the message
// says, for then the fork stands, perhaps without them. kInvalid: there is no anchor and no
// checkpoint, or the checkpoint is another one. kCorrupt: an object has another size.
ForkResult Fork(board::Board& board, const ForkRequest& request, ThreadPool& pool,
                Progress& progress);

}  // namespace isthmus::upkeep

#endif  // ISTHMUS_UPKEEP_FORK_H_
