#include "isthmus/tensor/checkpoint_write.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::tensor {
namespace {

// A step of progress, at which the work can be stopped.
constexpr uint64_t kWriteBytes = uint64_t{16} << 20;
// As huggingface_hub names shards: one, or numbered ones.
constexpr std::string_view kSingleShard = "model.safetensors";

void WriteShard(const Checkpoint& checkpoint, size_t number, const fs::path& directory,
                Progress& progress) {
  const Checkpoint::Shard& shard = checkpoint.shards()[number];
  File file = File::Create(directory / shard.file);
  file.Write(shard.header_bytes());
  // In file order their data covers the rest of the file.
  for (const TensorInfo& info : shard.header.tensors) {
    ByteSpan data = checkpoint.Data(*checkpoint.Find(info.name));
    while (!data.empty()) {
      const ByteSpan piece = data.first(std::min<uint64_t>(data.size(), kWriteBytes));
      file.Write(piece);
      progress.Advance(piece.size());
      data = data.subspan(piece.size());
    }
  }
}

struct EmptyShard {
  std::vector<TensorInfo> tensors;
  uint64_t bytes = 0;
};

std::vector<EmptyShard> Spread(std::vector<TensorInfo> tensors, uint64_t shard_bytes) {
  std::ranges::sort(tensors, {}, &TensorInfo::name);
  std::vector<EmptyShard> shards(1);
  for (TensorInfo& info : tensors) {
    const uint64_t bytes = BytesOf(info.name, info.dtype, info.shape);
    EmptyShard* last = &shards.back();
    if (!last->tensors.empty() &&
        (last->bytes >= shard_bytes || bytes > shard_bytes - last->bytes)) {
      last = &shards.emplace_back();
    }
    last->bytes += bytes;
    last->tensors.push_back(std::move(info));
  }
  return shards;
}

std::string ShardName(size_t number, size_t count) {
  if (count == 1) return std::string(kSingleShard);
  return fmt::format("model-{:05}-of-{:05}.safetensors", number + 1, count);
}

void WriteEmptyShard(const EmptyShard& shard, const fs::path& path) {
  const ByteVector header = MakeSafetensorsHeader(shard.tensors, {{"format", "pt"}});
  File file = File::Create(path);
  file.Write(header);
  if (::ftruncate(file.fd(), static_cast<off_t>(header.size() + shard.bytes)) != 0) {
    ThrowErrno(errno, "write", path.string());
  }
}

void WriteIndex(const std::vector<EmptyShard>& shards, const fs::path& directory) {
  boost::json::object weight_map;
  uint64_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    bytes += shards[i].bytes;
    for (const TensorInfo& info : shards[i].tensors) {
      weight_map[info.name] = ShardName(i, shards.size());
    }
  }
  const boost::json::object index = {{"metadata", {{"total_size", bytes}}},
                                     {"weight_map", std::move(weight_map)}};
  File::Create(directory / kIndexFile).Write(AsBytes(boost::json::serialize(index)));
}

}  // namespace

void WriteCheckpoint(const Checkpoint& checkpoint, const fs::path& directory, Progress& progress) {
  const ProgressScope scope(progress, "write", checkpoint.total_bytes());
  CreateDirectories(directory);
  for (size_t i = 0; i < checkpoint.shards().size(); ++i) {
    WriteShard(checkpoint, i, directory, progress);
  }
  for (const Checkpoint::OtherFile& file : checkpoint.other_files()) {
    CreateDirectories((directory / file.path).parent_path());
    CopyFile(checkpoint.directory() / file.path, directory / file.path, false);
    progress.Advance(file.bytes);
  }
  checkpoint.CheckUnchanged();
  checkpoint.CheckIntact();
}

void WriteEmptyCheckpoint(std::vector<TensorInfo> tensors, uint64_t shard_bytes,
                          const fs::path& directory) {
  const std::vector<EmptyShard> shards = Spread(std::move(tensors), shard_bytes);
  CreateDirectories(directory);
  for (size_t i = 0; i < shards.size(); ++i) {
    WriteEmptyShard(shards[i], directory / ShardName(i, shards.size()));
  }
  if (shards.size() > 1) WriteIndex(shards, directory);
}

}  // namespace isthmus::tensor
