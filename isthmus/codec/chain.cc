#include "isthmus/codec/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/codec/paths.h"

namespace isthmus::codec {
namespace {

using tensor::VersionTable;

// The entry of this name in a table's sorted list, or where it would stand.
template <typename Entry>
auto Seek(std::vector<Entry>& entries, std::string Entry::*name, const std::string& wanted) {
  return std::ranges::lower_bound(entries, wanted, {}, name);
}

void CheckSameTensor(const VersionTable::Tensor& have, const TensorEntry& entry) {
  if (have.dtype == entry.dtype && have.shape == entry.shape) return;
  Throw(ErrorCode::kCorrupt, "tensor {}: the patch is for {} [{}], the base holds {} [{}]",
        entry.name, tensor::DtypeName(entry.dtype), fmt::join(entry.shape, ","),
        tensor::DtypeName(have.dtype), fmt::join(have.shape, ","));
}

}  // namespace

Chain::Chain(VersionTable base, const std::vector<Patch>& patches)
    : base_(std::move(base)),
      outline_(base_),
      layout_(ChunkLayout::Of(base_)),
      sum_changes_(base_.tensors.size()),
      named_(base_.tensors.size()),
      steps_(layout_.chunks().size()) {
  for (const Patch& patch : patches) AddPatch(patch);
  CheckPaths();
}

void Chain::CheckPaths() const {
  std::set<std::string> paths;
  for (const VersionTable::Shard& shard : base_.shards) paths.insert(shard.file);
  for (const VersionTable::File& file : base_.files) paths.insert(file.path);
  for (const auto& [path, change] : files_) paths.insert(path);
  if (const auto path = PathThatIsAFolder(paths)) {
    Throw(ErrorCode::kCorrupt, "file {}: the patch makes a folder of it, or a file of the folder",
          *path);
  }
}

void Chain::AddPatch(const Patch& patch) {
  std::set<uint64_t> chunks;
  std::set<std::string_view> paths;
  for (const Part* part : patch) {
    for (const TensorEntry& entry : part->tensors()) AddTensor(entry);
    for (const ChunkEntry& entry : part->chunks()) {
      if (!chunks.insert(entry.number).second) {
        Throw(ErrorCode::kCorrupt, "chunk {}: it is in two parts of one patch", entry.number);
      }
      AddChunk(part, entry);
    }
    for (const FileEntry& entry : part->files()) {
      if (!paths.insert(entry.path).second) {
        Throw(ErrorCode::kCorrupt, "file {}: it is in two parts of one patch", entry.path);
      }
      AddFile(part, entry);
    }
  }
}

void Chain::AddTensor(const TensorEntry& entry) {
  const VersionTable::Tensor* have = base_.Find(entry.name);
  if (have == nullptr) {
    Throw(ErrorCode::kCorrupt, "tensor {}: the patch changes it, the base does not hold it",
          entry.name);
  }
  CheckSameTensor(*have, entry);
  const auto index = static_cast<size_t>(have - base_.tensors.data());
  sum_changes_[index] += entry.sum_change;
  named_[index] = true;
}

void Chain::AddChunk(const Part* part, const ChunkEntry& entry) {
  if (entry.number >= steps_.size()) {
    Throw(ErrorCode::kCorrupt, "chunk {}: the base has {}", entry.number, steps_.size());
  }
  const uint64_t most = layout_.chunks()[entry.number].bytes() + kPayloadSlackBytes;
  if (entry.bytes > most) {
    Throw(ErrorCode::kCorrupt, "chunk {}: payload of {} bytes, at most {} allowed", entry.number,
          entry.bytes, most);
  }
  steps_[entry.number].push_back({part, &entry});
}

void Chain::AddFile(const Part* part, const FileEntry& entry) {
  files_[entry.path] = {part, &entry};
  if (entry.kind == FileKind::kShardHeader) {
    const auto shard = Seek(outline_.shards, &VersionTable::Shard::file, entry.path);
    if (shard == outline_.shards.end() || shard->file != entry.path) {
      Throw(ErrorCode::kCorrupt, "shard {}: the patch has a header for it, the base has no shard",
            entry.path);
    }
    shard->header = entry.sha256;
    return;
  }
  if (entry.path.ends_with(".safetensors") && entry.path.find('/') == std::string::npos) {
    Throw(ErrorCode::kCorrupt, "file {}: the patch would replace or add a shard as a plain file",
          entry.path);
  }
  const auto file = Seek(outline_.files, &VersionTable::File::path, entry.path);
  const bool exists = file != outline_.files.end() && file->path == entry.path;
  if (entry.kind == FileKind::kRemoved) {
    if (!exists) {
      Throw(ErrorCode::kCorrupt, "file {}: the patch removes it, the base has none", entry.path);
    }
    outline_.files.erase(file);
  } else if (exists) {
    *file = {entry.path, entry.raw_bytes, entry.sha256};
  } else {
    outline_.files.insert(file, {entry.path, entry.raw_bytes, entry.sha256});
  }
}

void Chain::FoldChunk(size_t chunk, MutableByteSpan bytes, OldUnits* old) const {
  const std::vector<Step>& steps = steps_[chunk];
  if (steps.size() == 1) return ApplyStep(chunk, steps.front(), bytes, old);
  const auto apply = [&] {
    for (const Step& step : steps) ApplyStep(chunk, step, bytes, nullptr);
  };
  if (old == nullptr) return apply();
  old->Watch(bytes, tensor::UnitBytes(layout_.chunks()[chunk].dtype), apply);
}

void Chain::ApplyStep(size_t chunk, const Step& step, MutableByteSpan bytes, OldUnits* old) const {
  const auto& [part, entry] = step;
  const Model* model = IsSparse(entry->encoding) ? &part->models()[entry->model] : nullptr;
  try {
    ApplyChunk(entry->encoding, model, layout_.chunks()[chunk].dtype, part->Payload(*entry), bytes,
               old);
  } catch (const Error& error) {
    const Piece& first = layout_.Pieces(layout_.chunks()[chunk]).front();
    throw error.Annotated(
        fmt::format("chunk {} (of tensor {})", chunk, base_.tensors[first.tensor].name));
  }
}

}  // namespace isthmus::codec
