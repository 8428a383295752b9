// What lies at a path, as JSON (docs/cli.md, "inspect").
#ifndef ISTHMUS_REPLICA_DESCRIBE_H_
#define ISTHMUS_REPLICA_DESCRIBE_H_

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/codec/part.h"
#include "isthmus/store/store.h"

namespace isthmus::replica {

enum class PathKind { kPatch, kManifest, kBoard, kReplica, kCheckpoint };

// What a path names, or a board's URL. A directory that is neither board nor replica counts as a
// checkpoint. kNotFound if there is nothing, kInvalid for a file that is neither patch nor
// manifest.
PathKind KindOf(const std::string& path);

// The kind of a patch's file entry, for example "shard header".
std::string_view FileKindName(codec::FileKind kind);

// An object with "kind" (patch, manifest, board, replica or checkpoint) and what there is to say of
// it. A checkpoint is read as a whole, for its digest. Errors as KindOf and what reads these.
boost::json::object Describe(const std::string& path, const store::StoreOptions& store,
                             ThreadPool& pool, Progress& progress);

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_DESCRIBE_H_
