#include "isthmus/codec/tensor_diff.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/codec/scan.h"

namespace isthmus::codec {
namespace {

// Scanned and hashed together: two pieces fit a core's second-level cache. Divides a leaf.
constexpr uint64_t kPieceBytes = uint64_t{128} << 10;
static_assert(tensor::kLeafBytes % kPieceBytes == 0);

// Chunks that are encoded with raw and xor to estimate their cost for the whole tensor.
constexpr size_t kSampleChunks = 4;

// Below this many payload bits a unit, `direct` wins without a sample: raw and xor of a real
// tensor cost at least 2.5 bits a unit (measured: dense XOR + zstd, 19-25 bits a change at 1 %).
constexpr double kCertainDirectBits = 0.5;

ByteSpan Piece(ByteSpan bytes, uint64_t offset) {
  return bytes.subspan(offset, std::min<uint64_t>(kPieceBytes, bytes.size() - offset));
}

// Feeds pieces and closes a leaf whenever one is full.
class LeafDigester {
 public:
  explicit LeafDigester(std::vector<Xxh128Digest>* leaves) : leaves_(leaves) {}

  void Update(ByteSpan piece) {
    stream_.Update(piece);
    filled_ += piece.size();
    if (filled_ == tensor::kLeafBytes) Finish();
  }
  void Finish() {
    if (filled_ == 0) return;
    leaves_->push_back(stream_.Finish());
    filled_ = 0;
  }

 private:
  std::vector<Xxh128Digest>* leaves_;
  Xxh128Stream stream_;
  uint64_t filled_ = 0;
};

ByteSpan ChunkOf(ByteSpan tensor, uint64_t chunk_bytes, size_t chunk) {
  const uint64_t begin = chunk * chunk_bytes;
  return tensor.subspan(begin, std::min<uint64_t>(chunk_bytes, tensor.size() - begin));
}

// A tensor's chunks, before and after, and which of them changed.
struct Chunks {
  ByteSpan before;
  ByteSpan after;
  size_t unit_bytes;
  std::vector<size_t> changed;

  ByteVector Encode(Encoding encoding, size_t chunk) const {
    const uint64_t chunk_bytes = kChunkUnits * unit_bytes;
    ByteVector payload;
    if (encoding == Encoding::kRaw) {
      EncodeRaw(ChunkOf(after, chunk_bytes, chunk), unit_bytes, &payload);
    } else {
      EncodeXor(ChunkOf(before, chunk_bytes, chunk), ChunkOf(after, chunk_bytes, chunk), unit_bytes,
                &payload);
    }
    return payload;
  }
};

uint64_t TotalBytes(const std::vector<ByteVector>& payloads) {
  return std::accumulate(payloads.begin(), payloads.end(), uint64_t{0},
                         [](uint64_t sum, const ByteVector& p) { return sum + p.size(); });
}

// Bytes of `encoding` for all changed chunks, from some of them, evenly spread.
double EstimateBytes(const Chunks& chunks, Encoding encoding) {
  const size_t samples = std::min(kSampleChunks, chunks.changed.size());
  double bytes = 0;
  for (size_t i = 0; i < samples; ++i) {
    bytes += static_cast<double>(
        chunks.Encode(encoding, chunks.changed[i * chunks.changed.size() / samples]).size());
  }
  return bytes * static_cast<double>(chunks.changed.size()) / static_cast<double>(samples);
}

Encoding Cheapest(const Chunks& chunks, uint64_t direct_bytes, bool direct_allowed) {
  const size_t unit_count = chunks.after.size() / chunks.unit_bytes;
  const auto units = static_cast<double>(unit_count);
  if (direct_allowed && static_cast<double>(direct_bytes) * 8 < kCertainDirectBits * units) {
    return Encoding::kDirect;
  }
  const double raw = EstimateBytes(chunks, Encoding::kRaw);
  const double exclusive_or = EstimateBytes(chunks, Encoding::kXor);
  if (direct_allowed && static_cast<double>(direct_bytes) <= std::min(raw, exclusive_or)) {
    return Encoding::kDirect;
  }
  return exclusive_or < raw ? Encoding::kXor : Encoding::kRaw;
}

bool FitsLimit(const Chunks& chunks, const std::vector<ByteVector>& payloads) {
  for (size_t i = 0; i < payloads.size(); ++i) {
    const uint64_t chunk = ChunkOf(chunks.after, kChunkUnits * chunks.unit_bytes, i).size();
    if (payloads[i].size() > chunk + kPayloadSlackBytes) return false;
  }
  return true;
}

Encoding Choose(const Chunks& chunks, const std::vector<ByteVector>& direct,
                EncodingPolicy policy) {
  const bool direct_allowed = FitsLimit(chunks, direct);
  if (!policy) return Cheapest(chunks, TotalBytes(direct), direct_allowed);
  if (*policy == Encoding::kDirect && !direct_allowed) return Encoding::kRaw;
  return *policy;
}

void EncodeAgain(const Chunks& chunks, Encoding encoding, ThreadPool& pool,
                 std::vector<ByteVector>* payloads) {
  pool.ParallelFor(chunks.changed.size(), [&](size_t i) {
    (*payloads)[chunks.changed[i]] = chunks.Encode(encoding, chunks.changed[i]);
  });
}

void Append(const std::vector<Xxh128Digest>& from, std::vector<Xxh128Digest>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

}  // namespace

ChunkScan ScanChunk(ByteSpan before, ByteSpan after, size_t unit_bytes, bool want_direct) {
  thread_local std::vector<uint32_t> positions(kChunkUnits + kScanSlack);
  ChunkScan result;
  LeafDigester old_digester(&result.old_leaves);
  LeafDigester new_digester(&result.new_leaves);
  for (uint64_t at = 0; at < after.size(); at += kPieceBytes) {
    const ByteSpan old_piece = Piece(before, at);
    const ByteSpan new_piece = Piece(after, at);
    result.changed +=
        ScanChanged(old_piece, new_piece, unit_bytes, static_cast<uint32_t>(at / unit_bytes),
                    positions.data() + result.changed);
    old_digester.Update(old_piece);
    new_digester.Update(new_piece);
  }
  old_digester.Finish();
  new_digester.Finish();
  if (want_direct && result.changed > 0) {
    EncodeDirect(before, after, unit_bytes, {positions.data(), result.changed}, &result.direct);
  }
  return result;
}

TensorDiff AssembleTensor(const tensor::TensorInfo& info, ByteSpan before, ByteSpan after,
                          EncodingPolicy policy, std::vector<ChunkScan> chunks, ThreadPool& pool) {
  TensorDiff diff;
  diff.entry.name = info.name;
  diff.entry.dtype = info.dtype;
  diff.entry.shape = info.shape;
  diff.entry.chunks.resize(chunks.size());
  Chunks changed = {before, after, tensor::UnitBytes(info.dtype), {}};
  std::vector<Xxh128Digest> old_leaves;
  std::vector<Xxh128Digest> new_leaves;
  for (size_t i = 0; i < chunks.size(); ++i) {
    diff.entry.changed += chunks[i].changed;
    diff.changed.push_back(chunks[i].changed);
    if (chunks[i].changed > 0) changed.changed.push_back(i);
    Append(chunks[i].old_leaves, &old_leaves);
    Append(chunks[i].new_leaves, &new_leaves);
    diff.payloads.push_back(std::move(chunks[i].direct));
  }
  diff.entry.old_digest = tensor::DigestOfLeaves(old_leaves);
  diff.entry.new_digest = tensor::DigestOfLeaves(new_leaves);
  if (diff.entry.changed == 0) return diff;
  diff.entry.encoding = Choose(changed, diff.payloads, policy);
  if (diff.entry.encoding != Encoding::kDirect) {
    EncodeAgain(changed, diff.entry.encoding, pool, &diff.payloads);
  }
  return diff;
}

}  // namespace isthmus::codec
