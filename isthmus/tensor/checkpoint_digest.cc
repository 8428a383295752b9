// The version table of a checkpoint.
#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::tensor {
namespace {

// What one task hashes of a tensor: enough that starting it costs nothing, little enough that the
// last tasks of a checkpoint end together. A multiple of the leaf size.
constexpr uint64_t kPieceBytes = 4 * kLeafBytes;

struct Piece {
  size_t tensor;
  uint64_t begin;  // within the tensor
};

// The table with what Open knows: all digests are zero.
VersionTable Outline(const Checkpoint& checkpoint) {
  VersionTable table;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    table.tensors.push_back({tensor.info.name, tensor.info.dtype, tensor.info.shape,
                             checkpoint.shards()[tensor.shard].file, Xxh128Digest()});
  }
  for (const Checkpoint::Shard& shard : checkpoint.shards()) {
    table.shards.push_back({shard.file, Sha256Digest()});
  }
  for (const Checkpoint::OtherFile& file : checkpoint.other_files()) {
    table.files.push_back({file.path, file.bytes, Sha256Digest()});
  }
  return table;
}

void HashHeader(const Checkpoint::Shard& shard, Progress& progress, VersionTable::Shard* entry) {
  entry->header = Sha256(shard.header_bytes());
  progress.Advance(shard.header.header_bytes);
}

void HashFile(const fs::path& directory, Progress& progress, VersionTable::File* entry) {
  const fs::path path = directory / entry->path;
  const FileDigest digest =
      DigestFile(path, [&progress](uint64_t bytes) { progress.Advance(bytes); });
  if (digest.bytes != entry->bytes) {
    Throw(ErrorCode::kConflict,
          "hash {}: changed from {} to {} bytes since the checkpoint was opened; somebody is "
          "writing it",
          path.string(), entry->bytes, digest.bytes);
  }
  entry->sha256 = digest.sha256;
}

// Hashes the tensors of a checkpoint piece by piece, in any order and on any threads.
class TensorHasher {
 public:
  explicit TensorHasher(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
    leaves_.resize(checkpoint.tensors().size());
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const uint64_t bytes = checkpoint.tensors()[i].info.bytes();
      leaves_[i].resize((bytes + kLeafBytes - 1) / kLeafBytes);
      for (uint64_t begin = 0; begin < bytes; begin += kPieceBytes) pieces_.push_back({i, begin});
    }
  }

  size_t piece_count() const { return pieces_.size(); }

  // Returns the bytes hashed.
  uint64_t HashPiece(size_t index) {
    const Piece& piece = pieces_[index];
    const ByteSpan data = checkpoint_.Data(checkpoint_.tensors()[piece.tensor]);
    const ByteSpan bytes =
        data.subspan(piece.begin, std::min<uint64_t>(kPieceBytes, data.size() - piece.begin));
    std::vector<Xxh128Digest> digests;
    AppendLeafDigests(bytes, &digests);
    std::ranges::copy(digests, leaves_[piece.tensor].begin() +
                                   static_cast<std::ptrdiff_t>(piece.begin / kLeafBytes));
    return bytes.size();
  }

  // After every piece was hashed.
  Xxh128Digest DigestOf(size_t tensor) const { return DigestOfLeaves(leaves_[tensor]); }

 private:
  const Checkpoint& checkpoint_;
  std::vector<std::vector<Xxh128Digest>> leaves_;  // per tensor
  std::vector<Piece> pieces_;
};

}  // namespace

VersionTable DescribeCheckpoint(const Checkpoint& checkpoint) {
  VersionTable table = Outline(checkpoint);
  for (size_t i = 0; i < table.shards.size(); ++i) {
    HashHeader(checkpoint.shards()[i], NoProgress(), &table.shards[i]);
  }
  for (VersionTable::File& file : table.files) {
    HashFile(checkpoint.directory(), NoProgress(), &file);
  }
  checkpoint.CheckIntact();
  return table;
}

VersionTable DigestCheckpoint(const Checkpoint& checkpoint, ThreadPool& pool, Progress& progress) {
  const ProgressScope scope(progress, "hash", checkpoint.total_bytes());
  VersionTable table = Outline(checkpoint);
  TensorHasher hasher(checkpoint);
  const size_t shard_count = table.shards.size();
  const size_t whole_count = shard_count + table.files.size();
  // Headers and files cannot be split: they come first, so that none of them is the last to end.
  pool.ParallelFor(whole_count + hasher.piece_count(), [&](size_t i) {
    if (i < shard_count) {
      HashHeader(checkpoint.shards()[i], progress, &table.shards[i]);
    } else if (i < whole_count) {
      HashFile(checkpoint.directory(), progress, &table.files[i - shard_count]);
    } else {
      progress.Advance(hasher.HashPiece(i - whole_count));
    }
  });
  for (size_t i = 0; i < table.tensors.size(); ++i) table.tensors[i].digest = hasher.DigestOf(i);
  checkpoint.CheckIntact();
  return table;
}

}  // namespace isthmus::tensor
