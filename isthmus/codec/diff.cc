#include "isthmus/codec/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/codec/paths.h"
#include "isthmus/codec/tensor_diff.h"

namespace isthmus::codec {
namespace {

using tensor::Checkpoint;
using tensor::VersionTable;

// Tensors are scanned in batches of about this much data, so that many small ones fill all threads
// while the payloads in memory stay bounded.
constexpr uint64_t kBatchBytes = uint64_t{256} << 20;

std::optional<std::string> WhyTensorDiffers(const Checkpoint& base,
                                            const tensor::TensorInfo& tensor) {
  const Checkpoint::Tensor* old = base.Find(tensor.name);
  if (old == nullptr) return fmt::format("tensor {} is new", tensor.name);
  if (old->info.dtype != tensor.dtype) {
    return fmt::format("tensor {} changed dtype from {} to {}", tensor.name,
                       tensor::DtypeName(old->info.dtype), tensor::DtypeName(tensor.dtype));
  }
  if (old->info.shape != tensor.shape) {
    return fmt::format("tensor {} changed shape", tensor.name);
  }
  return std::nullopt;
}

std::optional<std::string> WhyTensorsDiffer(const Checkpoint& base, const Checkpoint& next) {
  for (const Checkpoint::Tensor& tensor : base.tensors()) {
    if (next.Find(tensor.info.name) == nullptr) {
      return fmt::format("tensor {} is gone", tensor.info.name);
    }
  }
  for (const Checkpoint::Tensor& tensor : next.tensors()) {
    if (auto why = WhyTensorDiffers(base, tensor.info)) return why;
  }
  return std::nullopt;
}

std::optional<std::string> WhyShardsDiffer(const Checkpoint& base, const Checkpoint& next) {
  if (base.shards().size() != next.shards().size()) {
    return fmt::format("{} shards became {}", base.shards().size(), next.shards().size());
  }
  for (size_t i = 0; i < next.shards().size(); ++i) {
    if (base.shards()[i].file != next.shards()[i].file) {
      return fmt::format("shard {} became {}", base.shards()[i].file, next.shards()[i].file);
    }
    if (base.shards()[i].header.header_bytes != next.shards()[i].header.header_bytes) {
      return fmt::format("the header of shard {} changed its length", next.shards()[i].file);
    }
  }
  return std::nullopt;
}

// The tensors are the same, by name; so they stand at the same index.
std::optional<std::string> WhyPlacesDiffer(const Checkpoint& base, const Checkpoint& next) {
  for (size_t i = 0; i < next.tensors().size(); ++i) {
    const Checkpoint::Tensor& old = base.tensors()[i];
    const Checkpoint::Tensor& tensor = next.tensors()[i];
    if (old.shard != tensor.shard || old.info.begin != tensor.info.begin) {
      return fmt::format("tensor {} moved to another place or shard", tensor.info.name);
    }
  }
  return std::nullopt;
}

const Checkpoint::OtherFile* FindFile(const Checkpoint& checkpoint, const std::string& path) {
  const auto at =
      std::ranges::lower_bound(checkpoint.other_files(), path, {}, &Checkpoint::OtherFile::path);
  return at != checkpoint.other_files().end() && at->path == path ? &*at : nullptr;
}

// A file that a patch could neither carry nor take back must be the same in both.
std::optional<std::string> WhyLargeFilesDiffer(const Checkpoint& from, const Checkpoint& to) {
  for (const Checkpoint::OtherFile& file : from.other_files()) {
    if (file.bytes <= kMaxFileBytes) continue;
    const Checkpoint::OtherFile* other = FindFile(to, file.path);
    if (other != nullptr && other->bytes == file.bytes &&
        DigestFile(from.directory() / file.path).sha256 ==
            DigestFile(to.directory() / file.path).sha256) {
      continue;
    }
    return fmt::format("file {} differs and has {} bytes, more than a patch can carry", file.path,
                       file.bytes);
  }
  return std::nullopt;
}

std::optional<std::string> WhyPathsCollide(const Checkpoint& base, const Checkpoint& next) {
  std::set<std::string> paths;
  for (const Checkpoint* side : {&base, &next}) {
    for (const Checkpoint::OtherFile& file : side->other_files()) paths.insert(file.path);
  }
  const auto path = PathThatIsAFolder(paths);
  if (!path) return std::nullopt;
  return fmt::format("{} is a file in one and a folder in the other", *path);
}

// The tensors [first, last) of one batch and the flat list of their chunks.
struct Batch {
  struct Task {
    size_t tensor;
    size_t chunk;
  };
  size_t first = 0;
  size_t last = 0;
  std::vector<Task> tasks;
};

Batch NextBatch(const Checkpoint& next, size_t first) {
  Batch batch;
  batch.first = batch.last = first;
  uint64_t bytes = 0;
  while (batch.last < next.tensors().size() && (bytes == 0 || bytes < kBatchBytes)) {
    const tensor::TensorInfo& info = next.tensors()[batch.last].info;
    const uint64_t chunks = ChunkCount(info.dtype, info.bytes());
    for (size_t chunk = 0; chunk < chunks; ++chunk) batch.tasks.push_back({batch.last, chunk});
    bytes += info.bytes();
    ++batch.last;
  }
  return batch;
}

class Differ {
 public:
  Differ(const Checkpoint& base, const Checkpoint& next, EncodingPolicy policy, ThreadPool& pool,
         Progress& progress)
      : base_(base), next_(next), policy_(policy), pool_(pool), progress_(progress) {
    result_.base = tensor::DescribeCheckpoint(base);
    result_.next = tensor::DescribeCheckpoint(next);
  }

  DiffResult Run(const std::function<void(TensorDiff)>& sink) {
    const ProgressScope scope(progress_, "compare", next_.tensor_bytes());
    for (size_t first = 0; first < next_.tensors().size();) {
      const Batch batch = NextBatch(next_, first);
      std::vector<std::vector<ChunkScan>> scans = Scan(batch);
      for (size_t i = batch.first; i < batch.last; ++i) {
        Take(i, std::move(scans[i - batch.first]), sink);
      }
      first = batch.last;
    }
    base_.CheckIntact();
    next_.CheckUnchanged();  // first: a file that is being rewritten may also have lost pages
    next_.CheckIntact();
    return std::move(result_);
  }

 private:
  std::vector<std::vector<ChunkScan>> Scan(const Batch& batch) {
    std::vector<std::vector<ChunkScan>> scans(batch.last - batch.first);
    for (const Batch::Task& task : batch.tasks) scans[task.tensor - batch.first].emplace_back();
    const bool want_direct = !policy_ || *policy_ == Encoding::kDirect;
    pool_.ParallelFor(batch.tasks.size(), [&](size_t i) {
      const auto [tensor, chunk] = batch.tasks[i];
      const tensor::Dtype dtype = next_.tensors()[tensor].info.dtype;
      const ByteSpan before = base_.Data(base_.tensors()[tensor]);
      const ByteSpan after = next_.Data(next_.tensors()[tensor]);
      const uint64_t begin = chunk * ChunkBytes(dtype);
      const uint64_t length = std::min<uint64_t>(ChunkBytes(dtype), after.size() - begin);
      scans[tensor - batch.first][chunk] =
          ScanChunk(before.subspan(begin, length), after.subspan(begin, length),
                    tensor::UnitBytes(dtype), want_direct);
      progress_.Advance(length);
    });
    return scans;
  }

  void Take(size_t index, std::vector<ChunkScan> scans,
            const std::function<void(TensorDiff)>& sink) {
    const Checkpoint::Tensor& tensor = next_.tensors()[index];
    TensorDiff diff = AssembleTensor(tensor.info, base_.Data(base_.tensors()[index]),
                                     next_.Data(tensor), policy_, std::move(scans), pool_);
    result_.base.tensors[index].digest = diff.entry.old_digest;
    result_.next.tensors[index].digest = diff.entry.new_digest;
    result_.units += UnitCount(tensor.info.dtype, tensor.info.bytes());
    if (diff.entry.changed == 0) return;
    result_.changed += diff.entry.changed;
    ++result_.tensors_changed;
    ++result_.encodings[std::string(EncodingName(diff.entry.encoding))];
    sink(std::move(diff));
  }

  const Checkpoint& base_;
  const Checkpoint& next_;
  const EncodingPolicy policy_;
  ThreadPool& pool_;
  Progress& progress_;
  DiffResult result_;
};

// The entry of the same name, or nullptr. Both vectors are small or sorted by construction.
template <typename Entry, typename Name>
const Entry* FindNamed(const std::vector<Entry>& entries, std::string Entry::*member,
                       const Name& name) {
  const auto at = std::lower_bound(
      entries.begin(), entries.end(), name,
      [member](const Entry& entry, const Name& wanted) { return entry.*member < wanted; });
  return at != entries.end() && (*at).*member == name ? &*at : nullptr;
}

void AddChangedHeaders(const Checkpoint& next, const VersionTable& base_table,
                       const VersionTable& next_table, PartBuilder* part) {
  for (size_t i = 0; i < next_table.shards.size(); ++i) {
    const VersionTable::Shard& shard = next_table.shards[i];
    const auto* old = FindNamed(base_table.shards, &VersionTable::Shard::file, shard.file);
    if (old != nullptr && *old == shard) continue;
    part->AddFile(shard.file, FileKind::kShardHeader, next.shards()[i].header_bytes());
  }
}

}  // namespace

std::optional<std::string> WhyNoPatch(const Checkpoint& base, const Checkpoint& next) {
  if (auto why = WhyTensorsDiffer(base, next)) return why;
  if (auto why = WhyShardsDiffer(base, next)) return why;
  if (auto why = WhyPlacesDiffer(base, next)) return why;
  if (auto why = WhyLargeFilesDiffer(base, next)) return why;
  if (auto why = WhyLargeFilesDiffer(next, base)) return why;
  return WhyPathsCollide(base, next);
}

DiffResult DiffCheckpoints(const Checkpoint& base, const Checkpoint& next, EncodingPolicy policy,
                           ThreadPool& pool, Progress& progress,
                           const std::function<void(TensorDiff)>& sink) {
  if (const auto why = WhyNoPatch(base, next)) {
    Throw(ErrorCode::kInvalid, "compare {} with {}: {}", base.directory().string(),
          next.directory().string(), *why);
  }
  return Differ(base, next, policy, pool, progress).Run(sink);
}

void AddTensorChange(TensorDiff diff, uint64_t part_bytes, PartBuilder* part,
                     const std::function<void()>& flush) {
  part_bytes = std::max<uint64_t>(part_bytes, 1);
  for (size_t first = 0; first < diff.payloads.size();) {
    TensorEntry range = diff.entry;
    range.first_chunk = first;
    range.changed = 0;
    std::vector<ByteVector> payloads;
    uint64_t bytes = part->payload_bytes();
    while (first < diff.payloads.size() && bytes < part_bytes) {
      range.changed += diff.changed[first];
      bytes += diff.payloads[first].size();
      payloads.push_back(std::move(diff.payloads[first++]));
    }
    range.chunks.resize(payloads.size());
    if (range.changed > 0) part->AddTensor(std::move(range), std::move(payloads));
    if (part->payload_bytes() >= part_bytes) flush();
  }
}

void AddFileChanges(const Checkpoint& next, const VersionTable& base_table,
                    const VersionTable& next_table, PartBuilder* part) {
  for (const VersionTable::File& file : next_table.files) {
    const auto* old = FindNamed(base_table.files, &VersionTable::File::path, file.path);
    if (old != nullptr && *old == file) continue;
    const std::string content = ReadFile(next.directory() / file.path, kMaxFileBytes);
    if (Sha256(AsBytes(content)) != file.sha256) {
      Throw(ErrorCode::kConflict, "read {}: it changed while it was being compared", file.path);
    }
    part->AddFile(file.path, FileKind::kContent, AsBytes(content));
  }
  for (const VersionTable::File& file : base_table.files) {
    if (FindNamed(next_table.files, &VersionTable::File::path, file.path) == nullptr) {
      part->AddFile(file.path, FileKind::kRemoved, {});
    }
  }
  AddChangedHeaders(next, base_table, next_table, part);
}

}  // namespace isthmus::codec
