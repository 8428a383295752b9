#include "isthmus/codec/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/codec/chain.h"
#include "isthmus/codec/chunk_scan.h"

namespace isthmus::codec {
namespace {

using tensor::Checkpoint;
using tensor::VersionTable;

// The entry of the same name, or nullptr. Both vectors are sorted by construction.
template <typename Entry>
const Entry* FindNamed(const std::vector<Entry>& entries, std::string Entry::*member,
                       const std::string& name) {
  const auto at = std::ranges::lower_bound(entries, name, {}, member);
  return at != entries.end() && (*at).*member == name ? &*at : nullptr;
}

// Adds the files and shard headers that differ; `content_of` gives a file's new content, or a
// shard's new header.
template <typename ContentOf>
void AddChangedFiles(const VersionTable& base, const VersionTable& next,
                     const ContentOf& content_of, PartBuilder* part) {
  for (const VersionTable::File& file : next.files) {
    const auto* old = FindNamed(base.files, &VersionTable::File::path, file.path);
    if (old != nullptr && *old == file) continue;
    const ByteVector content = content_of(file.path, FileKind::kContent);
    if (Sha256(content) != file.sha256) {
      Throw(ErrorCode::kConflict, "read {}: it changed while it was being compared", file.path);
    }
    part->AddFile(file.path, FileKind::kContent, content);
  }
  for (const VersionTable::File& file : base.files) {
    if (FindNamed(next.files, &VersionTable::File::path, file.path) == nullptr) {
      part->AddFile(file.path, FileKind::kRemoved, {});
    }
  }
  for (const VersionTable::Shard& shard : next.shards) {
    const auto* old = FindNamed(base.shards, &VersionTable::Shard::file, shard.file);
    if (old != nullptr && *old == shard) continue;
    part->AddFile(shard.file, FileKind::kShardHeader,
                  content_of(shard.file, FileKind::kShardHeader));
  }
}

ChunkSource SourceOf(const Checkpoint& checkpoint, const ChunkLayout& layout) {
  return [&checkpoint, &layout](size_t chunk, ByteVector* scratch) {
    return ChunkBytes(checkpoint, layout, chunk, scratch);
  };
}

}  // namespace

DiffResult DiffCheckpoints(const Checkpoint& base, const Checkpoint& next, EncodingPolicy policy,
                           ThreadPool& pool, Progress& progress,
                           const std::function<void(ChunkDiff)>& sink) {
  if (const auto why = WhyNoPatch(base, next)) {
    Throw(ErrorCode::kInvalid, "compare {} with {}: {}", base.directory().string(),
          next.directory().string(), *why);
  }
  const ProgressScope scope(progress, "compare", next.tensor_bytes());
  VersionTable base_table = tensor::DescribeCheckpoint(base);
  const ChunkLayout layout = ChunkLayout::Of(base_table);
  DiffResult result = DiffChunks({std::move(base_table), tensor::DescribeCheckpoint(next),
                                  SourceOf(base, layout), SourceOf(next, layout)},
                                 policy, pool, progress, sink);
  for (const Checkpoint* side : {&base, &next}) {
    side->CheckUnchanged();  // first: a file that is being rewritten may also have lost pages
    side->CheckIntact();
  }
  return result;
}

void AddFileChanges(const Checkpoint& next, const VersionTable& base_table,
                    const VersionTable& next_table, PartBuilder* part) {
  const auto content_of = [&next](const std::string& path, FileKind kind) {
    if (kind == FileKind::kShardHeader) {
      const auto shard = std::ranges::find(next.shards(), path, &Checkpoint::Shard::file);
      const ByteSpan header = shard->header_bytes();
      return ByteVector(header.begin(), header.end());
    }
    const std::string text = ReadFile(next.directory() / path, kMaxFileBytes);
    return ByteVector(AsBytes(text).begin(), AsBytes(text).end());
  };
  AddChangedFiles(base_table, next_table, content_of, part);
}

DiffResult SquashPatches(const Checkpoint& base, const std::vector<Patch>& patches,
                         EncodingPolicy policy, ThreadPool& pool, Progress& progress,
                         const std::function<void(ChunkDiff)>& sink, PartBuilder* part) {
  const ProgressScope scope(progress, "squash", base.tensor_bytes());
  VersionTable base_table = tensor::DescribeCheckpoint(base);
  const Chain chain(base_table, patches);
  const ChunkSource before = SourceOf(base, chain.layout());
  const ChunkSource after = [&](size_t chunk, ByteVector* scratch) -> ByteSpan {
    const ByteSpan old = before(chunk, scratch);
    if (!chain.Touches(chunk)) return old;
    if (old.data() != scratch->data()) scratch->assign(old.begin(), old.end());
    chain.FoldChunk(chunk, *scratch);
    return *scratch;
  };
  DiffResult result =
      DiffChunks({base_table, chain.outline(), before, after}, policy, pool, progress, sink);
  base.CheckUnchanged();
  base.CheckIntact();
  const auto content_of = [&chain](const std::string& path, FileKind /*kind*/) {
    const Chain::FileChange& change = chain.files().at(path);
    return change.part->Content(*change.entry);
  };
  AddChangedFiles(base_table, chain.outline(), content_of, part);
  return result;
}

}  // namespace isthmus::codec
