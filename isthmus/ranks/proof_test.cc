#include "isthmus/ranks/proof.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::ranks {
namespace {

using tensor::Dtype;
using testing::ExpectError;

// A tensor of two chunks, 2 MiB each, and a pool of two small ones; two ranks.
class ProofTest : public ::testing::Test {
 protected:
  ProofTest() {
    outline_.shards.push_back({"model.safetensors", {}});
    const auto add = [this](const std::string& name, uint64_t units) {
      outline_.tensors.push_back({name, Dtype::kBf16, {units}, "model.safetensors", {}});
      bytes_.emplace_back(2 * units, std::byte{static_cast<unsigned char>(bytes_.size())});
    };
    add("a", 100);
    add("b", 200);
    add("w", 2 * codec::kChunkUnits);
    assignment_.emplace(outline_,
                        std::vector<Holding>{{0, 0, 0, 100},
                                             {1, 1, 0, 200},
                                             {0, 2, 0, codec::kChunkUnits},
                                             {1, 2, codec::kChunkUnits, codec::kChunkUnits}},
                        2);
    receipts_ = {ReceiptOf(0), ReceiptOf(1)};
  }

  Receipt ReceiptOf(uint32_t rank) {
    Receipt receipt;
    receipt.plan = plan_;
    for (const size_t chunk : assignment_->OwnedBy(rank)) {
      ChunkProof proof = {chunk, 0, {}, {}};
      for (const auto& piece :
           assignment_->layout().Pieces(assignment_->layout().chunks()[chunk])) {
        tensor::AppendLeafDigests(
            ByteSpan(bytes_[piece.tensor]).subspan(2 * piece.first_unit, 2 * piece.units),
            &proof.before);
      }
      proof.after = proof.before;
      receipt.chunks.push_back(proof);
    }
    receipt.payload.encoding = rank == 0 ? "context+raw" : "direct+raw";
    receipt.payload.parts = {{"runs/r/data/2/x/" + std::to_string(rank), 7, {}, ""}};
    return receipt;
  }

  ProvenVersion Prove() { return ProveReceipts(outline_, *assignment_, plan_, receipts_); }
  template <typename... Parts>
  void ExpectRefused(const Parts&... parts) {
    ExpectError(
        ErrorCode::kCorrupt, [this] { Prove(); }, "prove coverage", parts...);
  }

  tensor::VersionTable outline_;
  std::vector<ByteVector> bytes_;  // per tensor
  std::optional<Assignment> assignment_;
  Sha256Digest plan_ = Sha256(AsBytes("plan"));
  std::vector<Receipt> receipts_;
};

TEST_F(ProofTest, LeavesMakeTheDigestsOfTensors) {
  receipts_[1].chunks[0].changed = 5;
  receipts_[1].chunks[0].after[1] = {};
  const ProvenVersion proven = Prove();
  for (size_t i = 0; i < bytes_.size(); ++i) {
    EXPECT_EQ(proven.base.tensors[i].digest, tensor::TensorDigest(bytes_[i])) << i;
  }
  EXPECT_NE(proven.next.tensors[2].digest, proven.base.tensors[2].digest);
  EXPECT_EQ(proven.next.tensors[0].digest, proven.base.tensors[0].digest);
  EXPECT_EQ(proven.changed, 5u);
  EXPECT_EQ(proven.tensors_changed, 1u);
  EXPECT_EQ(proven.payload.encoding, "context+direct+raw");
  EXPECT_EQ(proven.payload.parts.size(), 2u);
}

TEST_F(ProofTest, EachChunkFromItsOwnerOnce) {
  std::swap(receipts_[0], receipts_[1]);
  ExpectRefused("rank 0", "other chunks");
  std::swap(receipts_[0], receipts_[1]);
  receipts_[0].chunks.pop_back();
  ExpectRefused("rank 0", "other chunks");
  receipts_[0] = ReceiptOf(0);
  receipts_[0].chunks.push_back(receipts_[0].chunks.back());
  ExpectRefused("rank 0", "other chunks");
  receipts_[0].chunks.back().chunk = 99;
  ExpectRefused("rank 0", "other chunks");
}

TEST_F(ProofTest, AllLeavesOfAChunk) {
  receipts_[1].chunks[0].before.pop_back();
  ExpectRefused("rank 1", "1 and 2 leaves", "which has 2");
  receipts_[1] = ReceiptOf(1);
  receipts_[1].chunks[0].after.emplace_back();
  ExpectRefused("rank 1", "2 and 3 leaves");
}

TEST_F(ProofTest, NoMoreChangedThanThereIs) {
  receipts_[0].chunks[0].changed = codec::kChunkUnits + 1;
  ExpectRefused("rank 0");
}

TEST_F(ProofTest, OfASizeThatAReaderTakes) {
  receipts_[0].payload.parts[0].bytes = UINT64_MAX - 6;
  ExpectRefused("2 parts", "2^64 bytes");
}

TEST_F(ProofTest, AboutThisPlan) {
  receipts_[1].plan = Sha256(AsBytes("another"));
  ExpectRefused("rank 1", "another plan");
}

}  // namespace
}  // namespace isthmus::ranks
