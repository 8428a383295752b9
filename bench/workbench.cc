#include "bench/workbench.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "bench/measure.h"
#include "isthmus/base/error.h"
#include "isthmus/codec/chunk.h"
#include "isthmus/codec/chunk_differ.h"
#include "isthmus/codec/chunk_scan.h"
#include "isthmus/codec/scan.h"
#include "isthmus/tensor/position_sum.h"

namespace isthmus::bench {
namespace {

void Check(bool good, std::string_view what) {
  if (!good) Throw(ErrorCode::kInternal, "bench: {} gave a wrong result", what);
}

codec::ChunkLayout LayoutOf(const tensor::Checkpoint& checkpoint) {
  std::vector<codec::LayoutTensor> tensors;
  for (const tensor::Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    tensors.push_back({tensor.info.name, tensor.info.dtype, tensor.info.bytes()});
  }
  return codec::ChunkLayout(tensors);
}

// Where the three copies of a step lie in one allocation: at odd distances, as mapped files do, and
// at the same ones in every run. AMD's first-level cache guesses ways from addresses: at a distance
// of exactly 2^28 bytes, which steps of 256 MiB would have, each access to one step evicts the
// other's (measured: scan 0.33 instead of 0.80 x memcmp), and other distances between separate
// allocations cost a quarter by chance.
constexpr uint64_t kAfterRoomBytes = 1'056'768;
constexpr uint64_t kWorkRoomBytes = 2'633'728;

// All chunks, one after another.
void Gather(const tensor::Checkpoint& checkpoint, const codec::ChunkLayout& layout,
            MutableByteSpan to) {
  ByteVector scratch;
  for (size_t chunk = 0; chunk < layout.chunks().size(); ++chunk) {
    const ByteSpan data = codec::ChunkBytes(checkpoint, layout, chunk, &scratch);
    std::ranges::copy(data, to.begin());
    to = to.subspan(data.size());
  }
}

}  // namespace

Workbench::Workbench(const StepPair& pair)
    : layout_(LayoutOf(pair.after)),
      memory_(std::make_unique_for_overwrite<std::byte[]>(3 * pair.before.tensor_bytes() +
                                                          kAfterRoomBytes + kWorkRoomBytes)),
      positions_(codec::kChunkUnits + codec::kScanSlack),
      payloads_(layout_.chunks().size()) {
  uint64_t offset = 0;
  for (const codec::ChunkLayout::Chunk& chunk : layout_.chunks()) {
    offsets_.push_back(offset);
    offset += chunk.bytes();
  }
  const uint64_t bytes = pair.before.tensor_bytes();
  before_ = {memory_.get(), bytes};
  after_ = {before_.data() + bytes + kAfterRoomBytes, bytes};
  work_ = {after_.data() + bytes + kWorkRoomBytes, bytes};
  Gather(pair.before, layout_, before_);
  Gather(pair.after, layout_, after_);
  Copy();
  changed_ = ScanAll(after_);
}

ByteSpan Workbench::ChunkAt(ByteSpan step, size_t chunk) const {
  return step.subspan(offsets_[chunk], layout_.chunks()[chunk].bytes());
}

MutableByteSpan Workbench::WorkAt(size_t chunk) {
  return work_.subspan(offsets_[chunk], layout_.chunks()[chunk].bytes());
}

void Workbench::Copy() { std::memcpy(work_.data(), before_.data(), before_.size()); }

void Workbench::CompareEqual() {
  Check(std::memcmp(work_.data(), before_.data(), before_.size()) == 0, "memcmp");
}

size_t Workbench::ScanAll(ByteSpan other) {
  size_t changed = 0;
  for (size_t chunk = 0; chunk < offsets_.size(); ++chunk) {
    changed +=
        codec::ScanChanged(ChunkAt(before_, chunk), ChunkAt(other, chunk),
                           tensor::UnitBytes(layout_.chunks()[chunk].dtype), 0, positions_.data());
  }
  return changed;
}

void Workbench::ScanEqual() { Check(ScanAll(work_) == 0, "scan of equal data"); }
void Workbench::ScanPair() { Check(ScanAll(after_) == changed_, "scan"); }

void Workbench::DigestLeaves() {
  std::vector<Xxh128Digest> leaves;
  tensor::AppendLeafDigests(before_, &leaves);
  Consume(leaves.size());
}

void Workbench::EncodeAll(bool digests, ThreadPool& pool) {
  codec::ChunkEncoder encoder(
      layout_, {}, [this](size_t chunk, ByteVector*) { return ChunkAt(before_, chunk); },
      [this](size_t chunk, ByteVector*) { return ChunkAt(after_, chunk); }, pool, digests);
  std::vector<size_t> chunks(payloads_.size());
  std::iota(chunks.begin(), chunks.end(), size_t{0});
  codec::EncodeInBatches(encoder, chunks, [this](size_t chunk, codec::ChunkOutcome outcome) {
    payloads_[chunk].digest = Xxh3_64(outcome.encoded.payload);
    payloads_[chunk].encoded = std::move(outcome.encoded);
  });
}

void Workbench::ApplyChunkAt(size_t chunk, codec::OldUnits* old) {
  const codec::EncodedChunk& encoded = payloads_[chunk].encoded;
  if (encoded.payload.empty()) return old == nullptr ? void() : old->SetCount(0);
  codec::ApplyChunk(encoded.encoding, encoded.model.get(), layout_.chunks()[chunk].dtype,
                    encoded.payload, WorkAt(chunk), old);
}

void Workbench::VerifyChunkAt(size_t chunk) {
  thread_local codec::OldUnits old;
  const codec::ChunkLayout::Chunk& info = layout_.chunks()[chunk];
  const size_t unit_bytes = tensor::UnitBytes(info.dtype);
  const ByteSpan work = WorkAt(chunk);
  Check(Xxh3_64(payloads_[chunk].encoded.payload) == payloads_[chunk].digest, "payload digest");
  ApplyChunkAt(chunk, &old);
  if (layout_.Pieces(info).size() > 1) old.Sort();
  std::vector<Xxh128Digest> leaves;
  for (const codec::Piece& piece : layout_.Pieces(info)) {
    tensor::AppendLeafDigests(work.subspan(piece.chunk_unit * unit_bytes, piece.units * unit_bytes),
                              &leaves);
    const auto changes = old.Within(piece.chunk_unit, piece.units);
    Consume(leaves.size() +
            codec::SumChange(changes, work, unit_bytes, piece.first_unit - piece.chunk_unit));
  }
}

void Workbench::Apply(ThreadPool& pool) {
  pool.ParallelFor(offsets_.size(), [this](size_t chunk) { ApplyChunkAt(chunk, nullptr); });
}

void Workbench::ApplyVerified(ThreadPool& pool) {
  pool.ParallelFor(offsets_.size(), [this](size_t chunk) { VerifyChunkAt(chunk); });
}

void Workbench::CheckApplied() const { Check(std::ranges::equal(work_, after_), "apply"); }

}  // namespace isthmus::bench
