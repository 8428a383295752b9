// Bringing a mapped checkpoint along a chain of patches, in one pass over its memory.
#ifndef ISTHMUS_REPLICA_CHAIN_APPLY_H_
#define ISTHMUS_REPLICA_CHAIN_APPLY_H_

#include <string>
#include <vector>

#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/codec/chain.h"
#include "isthmus/replica/changes_file.h"
#include "isthmus/replica/undo_log.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::replica {

// Changes `checkpoint` (open for writing, holding chain.base()) into the version with the digest
// `target` and verifies all of it: every tensor, changed or not, every shard header and every other
// file. Each chunk is folded in a thread's own buffer, hashed there, recorded in `undo` (nullptr:
// no record) and in `changes` (likewise) and only then written; so the pass reads and writes each
// byte of the checkpoint at most once. Returns the version's table. Memory: a thread's chunk and
// what was overwritten, a few MiB; where several patches are folded or codes changed, up to 5
// chunks, at most 40 MiB.
//
// Throws kCorrupt when the result is not the target, and whatever a failing disk raises; the
// checkpoint is then between the versions until UndoLog::Replay took it back.
tensor::VersionTable ApplyChain(const tensor::Checkpoint& checkpoint, const codec::Chain& chain,
                                const Sha256Digest& target, UndoLog* undo, ThreadPool& pool,
                                Progress& progress, ChangeRecorder* changes = nullptr);

// What of a checkpoint is not as a table says, a phrase each: tensors, shard headers, files. Files
// that the table does not name are not looked at. kCorrupt if the tensors are other ones.
std::vector<std::string> FindDamage(const tensor::Checkpoint& checkpoint,
                                    const tensor::VersionTable& table, ThreadPool& pool,
                                    Progress& progress);

// Throws kCorrupt naming the first thing that FindDamage finds.
void VerifyCheckpoint(const tensor::Checkpoint& checkpoint, const tensor::VersionTable& table,
                      ThreadPool& pool, Progress& progress);

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_CHAIN_APPLY_H_
