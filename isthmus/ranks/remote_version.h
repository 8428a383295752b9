// A version as it lies on a board, to be read chunk by chunk by who needs only some of it.
#ifndef ISTHMUS_RANKS_REMOTE_VERSION_H_
#define ISTHMUS_RANKS_REMOTE_VERSION_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/board/board.h"
#include "isthmus/codec/chain.h"
#include "isthmus/replica/fetch.h"

namespace isthmus::ranks {

// The newest anchor and the patches since. The patches are fetched whole, of the anchor only the
// headers; chunks are read by range. What is read cannot be verified alone: digests are of whole
// objects and tensors. The board must outlive it.
class RemoteVersion {
 public:
  // `scratch`: a directory for the patches, removed with this object. kNotFound, kCorrupt: no
  // chain of payloads that are there and well-formed.
  RemoteVersion(const board::Board& board, const board::Manifest& manifest, const fs::path& scratch,
                ThreadPool& pool, Progress& progress);

  // The version's table, with zeros for the digests of tensors.
  const tensor::VersionTable& outline() const { return chain_->outline(); }
  // Replaces `bytes` by those of a chunk of the outline's layout. Thread-safe.
  void ReadChunk(size_t chunk, ByteVector* bytes) const;

 private:
  struct Place {
    std::string key;
    uint64_t offset = 0;
  };
  void ReadAnchor(const board::Payload& anchor);
  void ReadShard(const board::PayloadPart& part);

  store::Store& store_;
  std::string what_;  // for messages
  tensor::VersionTable anchor_;
  std::map<std::string, Place> places_;  // of tensors, by name
  std::vector<Place> place_of_;          // the same by index
  std::unique_ptr<replica::FetchedPatches> patches_;
  std::optional<codec::Chain> chain_;
};

}  // namespace isthmus::ranks

#endif  // ISTHMUS_RANKS_REMOTE_VERSION_H_
