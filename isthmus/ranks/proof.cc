#include "isthmus/ranks/proof.h"

#include <algorithm>
#include <set>

#include "isthmus/base/error.h"

namespace isthmus::ranks {
namespace {

using tensor::VersionTable;

uint64_t LeavesOf(const codec::Piece& piece, size_t unit_bytes) {
  return (piece.units * unit_bytes + tensor::kLeafBytes - 1) / tensor::kLeafBytes;
}

class Prover {
 public:
  Prover(const VersionTable& outline, const Assignment& assignment)
      : outline_(outline),
        assignment_(assignment),
        leaves_(outline.tensors.size()),
        proofs_(assignment.layout().chunks().size()) {}

  void Add(uint32_t rank, const Receipt& receipt) {
    const std::vector<size_t>& owned = assignment_.OwnedBy(rank);
    if (!std::ranges::equal(receipt.chunks, owned, {}, &ChunkProof::chunk)) {
      Throw(ErrorCode::kCorrupt,
            "prove coverage: the receipt of rank {} has other chunks than the {} "
            "that it owns",
            rank, owned.size());
    }
    for (const ChunkProof& proof : receipt.chunks) {
      CheckLeaves(rank, proof);
      proofs_[proof.chunk] = &proof;
    }
  }

  // In the order of chunks, which is that of each tensor's leaves.
  ProvenVersion Finish() {
    ProvenVersion version = {outline_, outline_, 0, 0, {}};
    for (size_t chunk = 0; chunk < proofs_.size(); ++chunk) Take(chunk, &version.changed);
    for (size_t i = 0; i < leaves_.size(); ++i) {
      version.base.tensors[i].digest = tensor::DigestOfLeaves(leaves_[i].before);
      version.next.tensors[i].digest = tensor::DigestOfLeaves(leaves_[i].after);
      if (leaves_[i].before != leaves_[i].after) ++version.tensors_changed;
    }
    return version;
  }

 private:
  struct Leaves {
    std::vector<Xxh128Digest> before;
    std::vector<Xxh128Digest> after;
  };

  void CheckLeaves(uint32_t rank, const ChunkProof& proof) const {
    const auto& chunk = assignment_.layout().chunks()[proof.chunk];
    uint64_t leaves = 0;
    for (const codec::Piece& piece : assignment_.layout().Pieces(chunk)) {
      leaves += LeavesOf(piece, tensor::UnitBytes(chunk.dtype));
    }
    if (proof.before.size() == leaves && proof.after.size() == leaves &&
        proof.changed <= chunk.units) {
      return;
    }
    Throw(ErrorCode::kCorrupt,
          "prove coverage: the receipt of rank {} has {} and {} leaves for chunk {}, which has {}",
          rank, proof.before.size(), proof.after.size(), proof.chunk, leaves);
  }

  void Take(size_t chunk, uint64_t* changed) {
    const auto& info = assignment_.layout().chunks()[chunk];
    const ChunkProof& proof = *proofs_[chunk];
    *changed += proof.changed;
    size_t at = 0;
    for (const codec::Piece& piece : assignment_.layout().Pieces(info)) {
      const uint64_t count = LeavesOf(piece, tensor::UnitBytes(info.dtype));
      for (const uint64_t end = at + count; at < end; ++at) {
        leaves_[piece.tensor].before.push_back(proof.before[at]);
        leaves_[piece.tensor].after.push_back(proof.after[at]);
      }
    }
  }

  const VersionTable& outline_;
  const Assignment& assignment_;
  std::vector<Leaves> leaves_;             // per tensor
  std::vector<const ChunkProof*> proofs_;  // per chunk; every chunk has an owner
};

// That together they are of a size that a reader takes.
void CheckSize(const board::Payload& payload) {
  uint64_t room = UINT64_MAX;
  for (const board::PayloadPart& part : payload.parts) {
    if (part.bytes > room) {
      Throw(ErrorCode::kCorrupt,
            "prove coverage: the {} parts of all ranks have 2^64 bytes or more",
            payload.parts.size());
    }
    room -= part.bytes;
  }
}

// "context+raw" and "direct" are "context+direct+raw".
void AddEncodings(const std::string& joined, std::set<std::string>* names) {
  for (size_t at = 0; at < joined.size();) {
    const size_t end = std::min(joined.find('+', at), joined.size());
    names->insert(joined.substr(at, end - at));
    at = end + 1;
  }
}

}  // namespace

ProvenVersion ProveReceipts(const VersionTable& outline, const Assignment& assignment,
                            const Sha256Digest& plan, const std::vector<Receipt>& receipts) {
  Prover prover(outline, assignment);
  board::Payload payload;
  payload.kind = board::PayloadKind::kPatch;
  std::set<std::string> encodings;
  for (uint32_t rank = 0; rank < receipts.size(); ++rank) {
    if (receipts[rank].plan != plan) {
      Throw(ErrorCode::kCorrupt, "prove coverage: the receipt of rank {} is about another plan",
            rank);
    }
    prover.Add(rank, receipts[rank]);
    std::ranges::copy(receipts[rank].payload.parts, std::back_inserter(payload.parts));
    AddEncodings(receipts[rank].payload.encoding, &encodings);
  }
  CheckSize(payload);
  ProvenVersion version = prover.Finish();
  for (const std::string& name : encodings) {
    payload.encoding += (payload.encoding.empty() ? "" : "+") + name;
  }
  version.payload = std::move(payload);
  return version;
}

}  // namespace isthmus::ranks
