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
    : base_(std::move(base)), result_(base_), steps_(base_.tensors.size()) {
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
  std::map<size_t, std::vector<Range>> ranges;
  std::set<std::string_view> paths;
  for (const Part* part : patch) {
    for (const TensorEntry& entry : part->tensors()) AddTensor(part, entry, &ranges);
    for (const FileEntry& entry : part->files()) {
      if (!paths.insert(entry.path).second) {
        Throw(ErrorCode::kCorrupt, "file {}: it is in two parts of one patch", entry.path);
      }
      AddFile(part, entry);
    }
  }
  for (auto& [tensor, tensor_ranges] : ranges) LinkTensor(tensor, std::move(tensor_ranges));
}

void Chain::AddTensor(const Part* part, const TensorEntry& entry,
                      std::map<size_t, std::vector<Range>>* ranges) const {
  const VersionTable::Tensor* have = base_.Find(entry.name);
  if (have == nullptr) {
    Throw(ErrorCode::kCorrupt, "tensor {}: the patch changes it, the base does not hold it",
          entry.name);
  }
  CheckSameTensor(*have, entry);
  (*ranges)[static_cast<size_t>(have - base_.tensors.data())].push_back({part, &entry});
}

// Takes the ranges of one patch for one tensor.
void Chain::LinkTensor(size_t tensor, std::vector<Range> ranges) {
  VersionTable::Tensor& state = result_.tensors[tensor];
  std::ranges::sort(ranges, {}, [](const Range& range) { return range.entry->first_chunk; });
  uint64_t next_chunk = 0;
  for (const Range& range : ranges) {
    if (range.entry->first_chunk < next_chunk) {
      Throw(ErrorCode::kCorrupt, "tensor {}: chunk {} is in two parts of one patch", state.name,
            range.entry->first_chunk);
    }
    next_chunk = range.entry->first_chunk + range.entry->chunks.size();
    if (range.entry->old_digest != state.digest) {
      Throw(ErrorCode::kCorrupt,
            "tensor {}: wrong base: the patch applies to content {}, the base holds {}", state.name,
            range.entry->old_digest.Hex(), state.digest.Hex());
    }
    if (range.entry->new_digest != ranges.front().entry->new_digest) {
      Throw(ErrorCode::kCorrupt, "tensor {}: two parts of one patch lead to {} and {}", state.name,
            ranges.front().entry->new_digest.Hex(), range.entry->new_digest.Hex());
    }
  }
  state.digest = ranges.front().entry->new_digest;
  steps_[tensor].insert(steps_[tensor].end(), ranges.begin(), ranges.end());
}

void Chain::AddFile(const Part* part, const FileEntry& entry) {
  files_[entry.path] = {part, &entry};
  if (entry.kind == FileKind::kShardHeader) {
    const auto shard = Seek(result_.shards, &VersionTable::Shard::file, entry.path);
    if (shard == result_.shards.end() || shard->file != entry.path) {
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
  const auto file = Seek(result_.files, &VersionTable::File::path, entry.path);
  const bool exists = file != result_.files.end() && file->path == entry.path;
  if (entry.kind == FileKind::kRemoved) {
    if (!exists) {
      Throw(ErrorCode::kCorrupt, "file {}: the patch removes it, the base has none", entry.path);
    }
    result_.files.erase(file);
  } else if (exists) {
    *file = {entry.path, entry.raw_bytes, entry.sha256};
  } else {
    result_.files.insert(file, {entry.path, entry.raw_bytes, entry.sha256});
  }
}

bool Chain::Touches(size_t tensor, uint64_t chunk) const {
  return std::ranges::any_of(steps_[tensor], [chunk](const Range& range) {
    const TensorEntry& entry = *range.entry;
    return chunk >= entry.first_chunk && chunk - entry.first_chunk < entry.chunks.size() &&
           entry.chunks[chunk - entry.first_chunk].bytes > 0;
  });
}

void Chain::FoldChunk(size_t tensor, uint64_t chunk, MutableByteSpan bytes) const {
  for (const auto& [part, entry] : steps_[tensor]) {
    if (chunk < entry->first_chunk || chunk - entry->first_chunk >= entry->chunks.size()) continue;
    const ChunkEntry& stored = entry->chunks[chunk - entry->first_chunk];
    if (stored.bytes == 0) continue;
    try {
      ApplyChunk(entry->encoding, tensor::UnitBytes(entry->dtype), part->Payload(stored), bytes);
    } catch (const Error& error) {
      throw error.Annotated(fmt::format("tensor {}, chunk {}", entry->name, chunk));
    }
  }
}

}  // namespace isthmus::codec
