// The committing rank's proof: what all ranks did, together, is one version (docs/ranks.md,
// "Steps"). Pure.
#ifndef ISTHMUS_RANKS_PROOF_H_
#define ISTHMUS_RANKS_PROOF_H_

#include <vector>

#include "isthmus/ranks/assignment.h"
#include "isthmus/ranks/messages.h"

namespace isthmus::ranks {

struct ProvenVersion {
  tensor::VersionTable base;  // with the digests of what the ranks compared with
  tensor::VersionTable next;
  uint64_t changed = 0;  // units
  uint64_t tensors_changed = 0;
  board::Payload payload;  // the patch: all ranks' parts
};

// `receipts` by rank. kCorrupt, naming the rank, unless each is about this plan and has exactly the
// chunks that the assignment gives the rank, each with the digests of all its leaves.
ProvenVersion ProveReceipts(const tensor::VersionTable& outline, const Assignment& assignment,
                            const Sha256Digest& plan, const std::vector<Receipt>& receipts);

}  // namespace isthmus::ranks

#endif  // ISTHMUS_RANKS_PROOF_H_
