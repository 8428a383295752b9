// Payloads from the board to local files, checked before anybody looks into them.
#ifndef ISTHMUS_REPLICA_FETCH_H_
#define ISTHMUS_REPLICA_FETCH_H_

#include <memory>
#include <vector>

#include "isthmus/base/mapped_file.h"
#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/board/board.h"
#include "isthmus/codec/chain.h"

namespace isthmus::replica {

// Fetches one object to `file` and checks its size and SHA-256 against the manifest's. A mismatch
// is tried once more (a proxy may have cut the first answer), then it is kCorrupt, naming the key.
// `file` is left only if it is right, and never has more bytes than the manifest says.
void FetchPart(store::Store& store, const board::PayloadPart& part, const fs::path& file,
               Progress& progress);

// Fetched patches, mapped and parsed. They stay on disk in `directory` until this is destroyed.
class FetchedPatches {
 public:
  explicit FetchedPatches(fs::path directory);
  ~FetchedPatches();
  FetchedPatches(const FetchedPatches&) = delete;
  FetchedPatches& operator=(const FetchedPatches&) = delete;

  // Appends one patch: fetches its parts in parallel, each checked. kCorrupt for a malformed part.
  void Add(store::Store& store, const board::Payload& payload, ThreadPool& pool,
           Progress& progress);

  // Oldest first, valid as long as this object.
  std::vector<codec::Patch> patches() const;

 private:
  struct Fetched {
    std::unique_ptr<MappedFile> map;
    std::unique_ptr<codec::Part> part;
  };
  fs::path directory_;
  std::vector<std::vector<Fetched>> patches_;
};

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_FETCH_H_
