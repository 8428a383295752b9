// Whether directories are what they claim to be.
#ifndef ISTHMUS_REPLICA_VERIFY_H_
#define ISTHMUS_REPLICA_VERIFY_H_

#include <string>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"

namespace isthmus::replica {

// One line each; none: nothing is wrong.
using Problems = std::vector<std::string>;

// Where the checkpoint in `directory` differs from the one in `against`, in any byte. If no patch
// could lead from one to the other, only why. Errors as tensor::Checkpoint::Open.
Problems FindDifferences(const fs::path& directory, const fs::path& against, ThreadPool& pool,
                         Progress& progress);

// What is wrong with the replica in `directory`. Takes no lock and changes nothing: safe beside
// whatever keeps the replica. kNotFound if there is no replica, kNotReady if it changed meanwhile.
Problems FindReplicaDamage(const fs::path& directory, ThreadPool& pool, Progress& progress);

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_VERIFY_H_
