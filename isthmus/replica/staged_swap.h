// Replacing a whole checkpoint by one that was built and verified beside it.
//
// Steps, in this order; the reason is what the next start finds after a crash behind each:
//   1. The new files lie verified in the control directory's stage/. The old version still holds.
//   2. swap.json (atomic) names the new state and the files: from here on the next start goes
//      forward, for every file it needs exists either in stage/ or in its place.
//   3. state.json removed: the replica is at no version.
//   4. Files that the new version lacks removed; the new ones renamed into place.
//   5. Table and state.json written: the replica is at the new version.
//   6. swap.json and stage/ removed.
#ifndef ISTHMUS_REPLICA_STAGED_SWAP_H_
#define ISTHMUS_REPLICA_STAGED_SWAP_H_

#include "isthmus/replica/state.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::replica {

// Steps 2 to 6 for the checkpoint in paths.stage(). Every other visible file is removed: the
// directory is the replica's alone (ControlPaths::marker).
void SwapIn(const ControlPaths& paths, const fs::path& directory, const ReplicaState& state,
            const tensor::VersionTable& table);

// Goes forward from step 3 if a crash left swap.json; else does nothing. Returns whether it did. If
// what the crash left is damaged, the replica is at no version.
bool FinishSwap(const ControlPaths& paths, const fs::path& directory);

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_STAGED_SWAP_H_
