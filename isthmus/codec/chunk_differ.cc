#include "isthmus/codec/chunk_differ.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace isthmus::codec {
namespace {

// Chunks that are sampled, scanned and encoded together: enough for many threads, few enough for
// their changes to stay in memory. A constant, because payloads depend on it: they must not depend
// on the number of threads.
constexpr size_t kBatchChunks = 64;

class Differ {
 public:
  Differ(DiffSides sides, EncodingPolicy policy, ThreadPool& pool, Progress& progress)
      : sides_(std::move(sides)),
        progress_(progress),
        layout_(ChunkLayout::Of(sides_.base)),
        encoder_(layout_, policy, sides_.before, sides_.after, pool),
        leaves_(sides_.base.tensors.size()) {}

  DiffResult Run(const std::function<void(ChunkDiff)>& sink) {
    std::vector<size_t> chunks(layout_.chunks().size());
    std::iota(chunks.begin(), chunks.end(), size_t{0});
    EncodeInBatches(encoder_, chunks, [&](size_t chunk, ChunkOutcome outcome) {
      Note(chunk, outcome);
      ChunkDiff diff = ToChunkDiff(sides_.base, layout_, chunk, std::move(outcome));
      if (diff.encoded.payload.empty()) return;
      ++result_.encodings[std::string(EncodingName(diff.encoded.encoding))];
      sink(std::move(diff));
    });
    Finish();
    return std::move(result_);
  }

 private:
  struct Leaves {
    std::vector<Xxh128Digest> before;
    std::vector<Xxh128Digest> after;
    bool changed = false;
  };

  void Note(size_t chunk, const ChunkOutcome& outcome) {
    const std::span<const Piece> pieces = layout_.Pieces(layout_.chunks()[chunk]);
    for (size_t p = 0; p < pieces.size(); ++p) {
      const PieceScan& found = outcome.pieces[p];
      Leaves& leaves = leaves_[pieces[p].tensor];
      std::ranges::copy(found.old_leaves, std::back_inserter(leaves.before));
      std::ranges::copy(found.new_leaves, std::back_inserter(leaves.after));
      leaves.changed |= found.changed > 0;
    }
    result_.units += layout_.chunks()[chunk].units;
    result_.changed += outcome.changed;
    progress_.Advance(layout_.chunks()[chunk].bytes());
  }

  void Finish() {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      sides_.base.tensors[i].digest = tensor::DigestOfLeaves(leaves_[i].before);
      sides_.next.tensors[i].digest = tensor::DigestOfLeaves(leaves_[i].after);
      if (leaves_[i].changed) ++result_.tensors_changed;
    }
    result_.base = std::move(sides_.base);
    result_.next = std::move(sides_.next);
  }

  DiffSides sides_;
  Progress& progress_;
  const ChunkLayout layout_;
  ChunkEncoder encoder_;
  std::vector<Leaves> leaves_;  // per tensor
  DiffResult result_;
};

}  // namespace

DiffResult DiffChunks(DiffSides sides, EncodingPolicy policy, ThreadPool& pool, Progress& progress,
                      const std::function<void(ChunkDiff)>& sink) {
  return Differ(std::move(sides), policy, pool, progress).Run(sink);
}

ChunkDiff ToChunkDiff(const tensor::VersionTable& table, const ChunkLayout& layout, size_t chunk,
                      ChunkOutcome outcome) {
  ChunkDiff diff = {chunk, {}, std::move(outcome.encoded)};
  const std::span<const Piece> pieces = layout.Pieces(layout.chunks()[chunk]);
  for (size_t p = 0; p < pieces.size(); ++p) {
    const PieceScan& found = outcome.pieces[p];
    if (found.changed == 0) continue;
    const tensor::VersionTable::Tensor& tensor = table.tensors[pieces[p].tensor];
    diff.tensors.push_back(
        {tensor.name, tensor.dtype, tensor.shape, found.changed, found.sum_change});
  }
  return diff;
}

void EncodeInBatches(ChunkEncoder& encoder, std::span<const size_t> chunks,
                     const std::function<void(size_t chunk, ChunkOutcome outcome)>& take) {
  for (size_t first = 0; first < chunks.size(); first += kBatchChunks) {
    const auto batch = chunks.subspan(first, std::min(kBatchChunks, chunks.size() - first));
    std::vector<ChunkOutcome> outcomes = encoder.Encode(batch);
    for (size_t i = 0; i < batch.size(); ++i) take(batch[i], std::move(outcomes[i]));
  }
}

void AddChunkDiff(ChunkDiff diff, PartBuilder* part) {
  for (const TensorEntry& entry : diff.tensors) part->AddTensor(entry);
  ChunkEntry entry;
  entry.number = diff.number;
  entry.encoding = diff.encoded.encoding;
  part->AddChunk(entry, diff.encoded.model.get(), std::move(diff.encoded.payload));
}

std::string JoinEncodings(const std::map<std::string, uint64_t>& encodings) {
  std::string joined;
  for (const auto& [name, count] : encodings) joined += (joined.empty() ? "" : "+") + name;
  return joined;
}

}  // namespace isthmus::codec
