// The new bytes of chunks: from a rank's own share, and from what others sent of theirs.
#ifndef ISTHMUS_RANKS_NEW_CHUNKS_H_
#define ISTHMUS_RANKS_NEW_CHUNKS_H_

#include <map>
#include <optional>
#include <vector>

#include "isthmus/ranks/assignment.h"
#include "isthmus/ranks/share.h"

namespace isthmus::ranks {

// Views into the share and the assignment, which must outlive it. Const methods are thread-safe.
class NewChunks {
 public:
  // `holdings` are those of the share's tensors.
  NewChunks(const Assignment& assignment, uint32_t rank, const std::vector<ShareTensor>& share,
            const std::vector<Holding>& holdings);

  // Copies units that the rank holds.
  void CopyHeld(const Slice& slice, MutableByteSpan to) const;
  // What another rank sent of a chunk that this rank owns.
  void Receive(const Slice& slice, ByteVector bytes);
  // A chunk that the rank owns, after everything of others was received: a view into the share, or
  // a copy in `scratch`.
  ByteSpan Owned(size_t chunk, ByteVector* scratch) const;

 private:
  struct Held {
    uint64_t first = 0;  // unit of the tensor
    ByteSpan bytes;
  };
  // From this unit of the tensor on to the end of what is held there.
  ByteSpan HeldFrom(size_t tensor, uint64_t unit, size_t unit_bytes) const;
  std::optional<ByteSpan> View(size_t chunk) const;

  const Assignment& assignment_;
  uint32_t rank_;
  std::map<size_t, std::vector<Held>> held_;  // by tensor, ascending
  std::map<Slice, ByteVector> received_;
};

}  // namespace isthmus::ranks

#endif  // ISTHMUS_RANKS_NEW_CHUNKS_H_
