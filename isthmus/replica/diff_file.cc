#include "isthmus/replica/diff_file.h"

#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::replica {

uint64_t WritePatchFile(codec::PartBuilder* part, const codec::VersionPair& versions,
                        const fs::path& path) {
  if (Exists(path) && !fs::is_regular_file(path)) {
    Throw(ErrorCode::kInvalid, "write {}: exists and is not a file", path.string());
  }
  AtomicFile file(path);
  const uint64_t bytes = part->Finish(versions, [&file](ByteSpan piece) { file.Write(piece); });
  file.Commit();
  return bytes;
}

DiffFileResult DiffToFile(const fs::path& base, const fs::path& next, const fs::path& patch,
                          codec::EncodingPolicy policy, ThreadPool& pool, Progress& progress) {
  const auto before = tensor::Checkpoint::Open(base);
  const auto after = tensor::Checkpoint::Open(next);
  codec::PartBuilder part;
  DiffFileResult result;
  result.diff = codec::DiffCheckpoints(
      before, after, policy, pool, progress,
      [&part](codec::ChunkDiff change) { codec::AddChunkDiff(std::move(change), &part); });
  codec::AddFileChanges(after, result.diff.base, result.diff.next, &part);
  result.checkpoint_bytes = after.total_bytes();
  result.patch_bytes =
      WritePatchFile(&part, {result.diff.base.Digest(), result.diff.next.Digest()}, patch);
  return result;
}

}  // namespace isthmus::replica
