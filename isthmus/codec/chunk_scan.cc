#include "isthmus/codec/chunk_scan.h"

#include <algorithm>

#include "isthmus/codec/scan.h"
#include "isthmus/tensor/position_sum.h"

namespace isthmus::codec {
namespace {

// Scanned, hashed and collected together: two strips fit a core's second-level cache. Divides a
// leaf.
constexpr uint64_t kStripBytes = uint64_t{128} << 10;
static_assert(tensor::kLeafBytes % kStripBytes == 0);

ByteSpan Strip(ByteSpan bytes, uint64_t offset) {
  return bytes.subspan(offset, std::min<uint64_t>(kStripBytes, bytes.size() - offset));
}

// Feeds strips and closes a leaf whenever one is full.
class LeafDigester {
 public:
  explicit LeafDigester(std::vector<Xxh128Digest>* leaves) : leaves_(leaves) {}

  void Update(ByteSpan strip) {
    stream_.Update(strip);
    filled_ += strip.size();
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

// The positions of the 4-bit codes that differ in the units that do.
std::vector<uint32_t> CodePositions(ByteSpan old_codes, ByteSpan new_codes, size_t unit_bytes,
                                    std::span<const uint32_t> units) {
  std::vector<uint32_t> positions;
  const size_t codes_per_unit = 2 * unit_bytes;
  for (const uint32_t unit : units) {
    for (size_t at = unit * codes_per_unit; at < (unit + size_t{1}) * codes_per_unit; ++at) {
      if (old_codes[at] != new_codes[at]) positions.push_back(static_cast<uint32_t>(at));
    }
  }
  return positions;
}

// A thread's room for the changes of a full chunk.
struct Buffers {
  std::vector<uint32_t> positions = std::vector<uint32_t>(kChunkUnits + kScanSlack);
  std::vector<uint8_t> classes = std::vector<uint8_t>(kChunkUnits + kOrderSlack);
  std::vector<uint32_t> gaps = std::vector<uint32_t>(kChunkUnits + kOrderSlack);
  std::vector<PackedStep> steps = std::vector<PackedStep>(kChunkUnits + kOrderSlack);
};

class Scanner {
 public:
  Scanner(const ChunkLayout::Chunk& info, ByteSpan before, ByteSpan after,
          const ScanRequest& request, Buffers* buffers, ChunkScan* scan)
      : dtype_(info.dtype),
        unit_bytes_(tensor::UnitBytes(info.dtype)),
        before_(before),
        after_(after),
        request_(request),
        buffers_(*buffers),
        scan_(*scan) {
    scan_.pieces.clear();
    scan_.changed = 0;
    scan_.elements = before.size() * 8 / ElementBits(request.elements, dtype_);
    scan_.events.activity.reset();
    scan_.events.Resize(0);
    // Strips of a single piece consist of whole blocks, which can be put in order right away.
    if (request.rule != nullptr && info.piece_count == 1 && request.elements == Elements::kUnits) {
      orderer_.emplace(ElementBits(request.elements, dtype_), *request.rule, nullptr,
                       ChangeOrderer::Output{buffers->classes.data(), buffers->gaps.data(),
                                             buffers->steps.data()});
    }
  }

  void Scan(const Piece& piece) {
    PieceScan found;
    LeafDigester old_digester(&found.old_leaves);
    LeafDigester new_digester(&found.new_leaves);
    const ByteSpan old_bytes = PieceOf(before_, piece);
    const ByteSpan new_bytes = PieceOf(after_, piece);
    for (uint64_t at = 0; at < old_bytes.size(); at += kStripBytes) {
      const ByteSpan old_strip = Strip(old_bytes, at);
      const ByteSpan new_strip = Strip(new_bytes, at);
      const auto positions = ScanStrip(old_strip, new_strip, piece.chunk_unit + at / unit_bytes_);
      found.changed += positions.size();
      if (!request_.digests) continue;
      old_digester.Update(old_strip);
      new_digester.Update(new_strip);
      found.sum_change += tensor::PositionSumChange(before_, after_, unit_bytes_,
                                                    piece.first_unit - piece.chunk_unit, positions);
    }
    old_digester.Finish();
    new_digester.Finish();
    scan_.pieces.push_back(std::move(found));
  }

  void Finish() {
    if (scan_.changed > 0 && request_.rule != nullptr) FinishEvents();
  }

 private:
  ByteSpan PieceOf(ByteSpan chunk, const Piece& piece) const {
    return chunk.subspan(piece.chunk_unit * unit_bytes_, piece.units * unit_bytes_);
  }

  // Appends to the buffers; returns the strip's positions.
  std::span<const uint32_t> ScanStrip(ByteSpan old_strip, ByteSpan new_strip, uint64_t first) {
    uint32_t* const begin = buffers_.positions.data() + scan_.changed;
    const size_t count =
        ScanChanged(old_strip, new_strip, unit_bytes_, static_cast<uint32_t>(first), begin);
    scan_.changed += count;
    if (orderer_) {
      orderer_->Order(before_, after_, first, first + old_strip.size() / unit_bytes_,
                      {begin, count});
    }
    return {begin, count};
  }

  // A bitmap changes all ranks: then what was put in order must be again.
  void FinishEvents() {
    const std::span<const uint32_t> units(buffers_.positions.data(), scan_.changed);
    if (request_.elements == Elements::kCodes4) return OrderCodes(units);
    std::optional<Activity> activity = ChooseActivity(units, scan_.elements);
    if (!orderer_ || activity) {
      scan_.events = OrderChanges(before_, after_, ElementBits(request_.elements, dtype_),
                                  *request_.rule, std::move(activity), units);
      return;
    }
    const auto changed = static_cast<std::ptrdiff_t>(scan_.changed);
    scan_.events.classes.assign(buffers_.classes.begin(), buffers_.classes.begin() + changed);
    scan_.events.gaps.assign(buffers_.gaps.begin(), buffers_.gaps.begin() + changed);
    scan_.events.steps.assign(buffers_.steps.begin(), buffers_.steps.begin() + changed);
  }

  void OrderCodes(std::span<const uint32_t> units) {
    thread_local ByteVector old_codes;
    thread_local ByteVector new_codes;
    old_codes.resize(scan_.elements);
    new_codes.resize(scan_.elements);
    UnpackCodes(before_, old_codes);
    UnpackCodes(after_, new_codes);
    const std::vector<uint32_t> positions = CodePositions(old_codes, new_codes, unit_bytes_, units);
    scan_.events = OrderChanges(old_codes, new_codes, 4, *request_.rule,
                                ChooseActivity(positions, scan_.elements), positions);
  }

  const tensor::Dtype dtype_;
  const size_t unit_bytes_;
  const ByteSpan before_;
  const ByteSpan after_;
  const ScanRequest& request_;
  Buffers& buffers_;
  std::optional<ChangeOrderer> orderer_;
  ChunkScan& scan_;
};

}  // namespace

ByteSpan PieceBytes(const tensor::Checkpoint& checkpoint, const Piece& piece, size_t unit_bytes) {
  return checkpoint.Data(checkpoint.tensors()[piece.tensor])
      .subspan(piece.first_unit * unit_bytes, piece.units * unit_bytes);
}

ByteSpan ChunkBytes(const tensor::Checkpoint& checkpoint, const ChunkLayout& layout, size_t chunk,
                    ByteVector* scratch) {
  const ChunkLayout::Chunk& info = layout.chunks()[chunk];
  const size_t unit_bytes = tensor::UnitBytes(info.dtype);
  const auto data = [&](const Piece& piece) { return PieceBytes(checkpoint, piece, unit_bytes); };
  const std::span<const Piece> pieces = layout.Pieces(info);
  if (pieces.size() == 1) return data(pieces.front());
  scratch->resize(info.bytes());
  for (const Piece& piece : pieces) {
    std::ranges::copy(
        data(piece), scratch->begin() + static_cast<std::ptrdiff_t>(piece.chunk_unit * unit_bytes));
  }
  return *scratch;
}

void ScanChunk(const ChunkLayout& layout, size_t chunk, ByteSpan before, ByteSpan after,
               const ScanRequest& request, ChunkScan* scan) {
  thread_local Buffers buffers;
  const ChunkLayout::Chunk& info = layout.chunks()[chunk];
  Scanner scanner(info, before, after, request, &buffers, scan);
  for (const Piece& piece : layout.Pieces(info)) scanner.Scan(piece);
  scanner.Finish();
}

}  // namespace isthmus::codec
