#include "isthmus/tensor/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <system_error>

#include "isthmus/base/error.h"
#include "isthmus/tensor/weight_map.h"

namespace isthmus::tensor {
namespace {

constexpr std::string_view kShardSuffix = ".safetensors";
constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

struct FileState {
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  bool operator==(const FileState&) const = default;
};

// Nothing if the file is gone, or is not a regular one.
std::optional<FileState> StateOf(const fs::path& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    ThrowErrno(errno, "stat", path.string());
  }
  if (!S_ISREG(info.st_mode)) return std::nullopt;
  return FileState{static_cast<uint64_t>(info.st_size),
                   info.st_mtim.tv_sec * kNanosecondsPerSecond + info.st_mtim.tv_nsec};
}

// A file of the checkpoint as the directory listing shows it.
struct Listed {
  std::string path;  // relative, '/' between parts
  FileState state;
  bool is_shard = false;
};

void CheckDirectory(const fs::path& directory) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (status.type() == fs::file_type::not_found) {
    Throw(ErrorCode::kNotFound, "open checkpoint {}: no such directory", directory.string());
  }
  if (error) ThrowErrno(error.value(), "open checkpoint", directory.string());
  if (status.type() != fs::file_type::directory) {
    Throw(ErrorCode::kInvalid, "open checkpoint {}: not a directory", directory.string());
  }
}

// A regular file, or a link to one; nothing for whatever else a directory may hold.
std::optional<Listed> Look(const fs::path& directory, const fs::directory_entry& entry) {
  const std::optional<FileState> state = StateOf(entry.path());
  if (!state) {
    if (entry.is_symlink() && !fs::exists(entry.path())) {
      Throw(ErrorCode::kNotFound, "open checkpoint file {}: a link to {}, which does not exist",
            entry.path().string(), fs::read_symlink(entry.path()).string());
    }
    return std::nullopt;
  }
  Listed listed = {entry.path().lexically_relative(directory).generic_string(), *state};
  if (!IsFilePath(listed.path)) {
    Throw(
        ErrorCode::kCorrupt,
        "open checkpoint file {:?}: expected a path of at most {} bytes without control characters",
        entry.path().string(), kMaxNameBytes);
  }
  listed.is_shard = entry.path().parent_path() == directory && listed.path.ends_with(kShardSuffix);
  return listed;
}

// Every file below the directory, by path.
std::vector<Listed> List(const fs::path& directory) try {
  std::vector<Listed> files;
  for (auto at = fs::recursive_directory_iterator(directory); at != fs::end(at); ++at) {
    if (at->path().filename().string().starts_with('.')) {
      at.disable_recursion_pending();
    } else if (std::optional<Listed> listed = Look(directory, *at)) {
      files.push_back(std::move(*listed));
    }
  }
  std::ranges::sort(files, {}, &Listed::path);
  return files;
} catch (const fs::filesystem_error& error) {
  ThrowErrno(error.code().value(), "list", error.path1().string());
}

std::vector<std::string> ShardsOf(const std::vector<Listed>& files) {
  std::vector<std::string> shards;
  for (const Listed& file : files) {
    if (file.is_shard) shards.push_back(file.path);
  }
  return shards;
}

void CheckSingleShard(const fs::path& directory, const std::vector<std::string>& shards) {
  if (shards.empty()) {
    Throw(ErrorCode::kNotFound, "open checkpoint {}: no *.safetensors file", directory.string());
  }
  if (shards.size() > 1) {
    Throw(ErrorCode::kCorrupt,
          "open checkpoint {}: {} *.safetensors files ({}, {}, ...) without {}; one is allowed",
          directory.string(), shards.size(), shards[0], shards[1], kIndexFile);
  }
}

std::vector<WeightMapEntry> ReadIndex(const fs::path& path) {
  const std::string json = ReadFile(path, kMaxIndexBytes);
  try {
    return ParseWeightMap(json);
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("read {}", path.string()));
  }
}

// The index and the directory must name the same shards. `shards` is sorted.
void CheckShardsAgree(const fs::path& index, const std::vector<WeightMapEntry>& entries,
                      const std::vector<std::string>& shards) {
  std::set<std::string_view> named;
  for (const WeightMapEntry& entry : entries) {
    if (!named.insert(entry.shard).second || std::ranges::binary_search(shards, entry.shard)) {
      continue;
    }
    Throw(ErrorCode::kNotFound, "read {}: tensor {:?} lies in {}, which does not exist",
          index.string(), entry.tensor, entry.shard);
  }
  for (const std::string& shard : shards) {
    if (named.contains(shard)) continue;
    Throw(ErrorCode::kCorrupt, "read {}: no tensor lies in {}, which is beside it", index.string(),
          shard);
  }
}

Checkpoint::Shard OpenShard(const fs::path& directory, const std::string& file, Access access) {
  MappedFile map(directory / file, access);
  try {
    SafetensorsHeader header = ParseSafetensors(map.bytes());
    map.CheckIntact();
    return {file, std::move(map), std::move(header)};
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("read {}", (directory / file).string()));
  }
}

// All tensors by name, which must be unique across shards.
std::vector<Checkpoint::Tensor> CollectTensors(const fs::path& directory,
                                               const std::vector<Checkpoint::Shard>& shards) {
  std::vector<Checkpoint::Tensor> tensors;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    for (const TensorInfo& info : shards[shard].header.tensors)
      tensors.push_back({info, shard, nullptr});
  }
  const auto name = [](const Checkpoint::Tensor& tensor) -> const std::string& {
    return tensor.info.name;
  };
  std::ranges::stable_sort(tensors, {}, name);
  const auto twice = std::ranges::adjacent_find(tensors, {}, name);
  if (twice != tensors.end()) {
    Throw(ErrorCode::kCorrupt, "open checkpoint {}: tensor {:?} is in {} and in {}",
          directory.string(), twice->info.name, shards[twice->shard].file,
          shards[(twice + 1)->shard].file);
  }
  return tensors;
}

// The index and the shards must agree on every tensor. Both lists are sorted by name.
void CheckTensorsAgree(const fs::path& index, const std::vector<WeightMapEntry>& entries,
                       const std::vector<Checkpoint::Tensor>& tensors,
                       const std::vector<Checkpoint::Shard>& shards) {
  auto entry = entries.begin();
  for (const Checkpoint::Tensor& tensor : tensors) {
    const std::string& file = shards[tensor.shard].file;
    if (entry == entries.end() || entry->tensor > tensor.info.name) {
      Throw(ErrorCode::kCorrupt, "read {}: tensor {:?} of {} is not in weight_map", index.string(),
            tensor.info.name, file);
    }
    if (entry->tensor < tensor.info.name) break;
    if (entry->shard != file) {
      Throw(ErrorCode::kCorrupt, "read {}: tensor {:?} is in {}, weight_map says {}",
            index.string(), tensor.info.name, file, entry->shard);
    }
    ++entry;
  }
  if (entry == entries.end()) return;
  Throw(ErrorCode::kCorrupt, "read {}: tensor {:?} is not in {}, where weight_map says it is",
        index.string(), entry->tensor, entry->shard);
}

}  // namespace

Checkpoint Checkpoint::Open(const fs::path& directory, Access access) {
  CheckDirectory(directory);
  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  // Without a trailing slash, the parent of a file's path is the directory's path.
  const fs::path root = directory.has_filename() ? directory : directory.parent_path();
  // Sizes and times are noted before anything is read, so that CheckUnchanged covers all reading.
  const std::vector<Listed> listed = List(root);
  const std::vector<std::string> shards = ShardsOf(listed);
  for (const Listed& file : listed) {
    if (!file.is_shard) checkpoint.files_.push_back({file.path, file.state.bytes});
    checkpoint.stamps_.push_back({root / file.path, file.state.bytes, file.state.modified_ns});
    checkpoint.total_bytes_ += file.state.bytes;
  }
  const fs::path index = root / kIndexFile;
  const bool has_index = std::ranges::binary_search(listed, kIndexFile, {}, &Listed::path);
  const std::vector<WeightMapEntry> entries =
      has_index ? ReadIndex(index) : std::vector<WeightMapEntry>();
  if (has_index) {
    CheckShardsAgree(index, entries, shards);
  } else {
    CheckSingleShard(root, shards);
  }
  for (const std::string& file : shards) {
    checkpoint.shards_.push_back(OpenShard(root, file, access));
  }
  checkpoint.tensors_ = CollectTensors(root, checkpoint.shards_);
  if (has_index) CheckTensorsAgree(index, entries, checkpoint.tensors_, checkpoint.shards_);
  for (const Tensor& tensor : checkpoint.tensors_) checkpoint.tensor_bytes_ += tensor.info.bytes();
  return checkpoint;
}

std::vector<std::string> Checkpoint::AllFiles() const {
  std::vector<std::string> files;
  files.reserve(shards_.size() + files_.size());
  for (const Shard& shard : shards_) files.push_back(shard.file);
  for (const OtherFile& file : files_) files.push_back(file.path);
  return files;
}

const Checkpoint::Tensor* Checkpoint::Find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(
      tensors_, name, {},
      [](const Tensor& tensor) -> std::string_view { return tensor.info.name; });
  return at != tensors_.end() && at->info.name == name ? &*at : nullptr;
}

Checkpoint Checkpoint::OpenWithData(const fs::path& directory, const MemoryTensors& tensors) {
  Checkpoint checkpoint = Open(directory);
  checkpoint.in_memory_ = true;
  for (Tensor& tensor : checkpoint.tensors_) {
    const auto at = tensors.find(tensor.info.name);
    if (at == tensors.end()) {
      Throw(ErrorCode::kInvalid, "take tensors as {}: tensor {} is missing", directory.string(),
            tensor.info.name);
    }
    if (at->second.size() != tensor.info.bytes()) {
      Throw(ErrorCode::kInvalid, "take tensors as {}: tensor {} has {} bytes, expected {}",
            directory.string(), at->first, at->second.size(), tensor.info.bytes());
    }
    tensor.memory = at->second.data();
  }
  for (const auto& [name, bytes] : tensors) {
    if (checkpoint.Find(name) != nullptr) continue;
    Throw(ErrorCode::kInvalid, "take tensors as {}: it has no tensor {}", directory.string(), name);
  }
  return checkpoint;
}

ByteSpan Checkpoint::Data(const Tensor& tensor) const {
  if (in_memory_) return {tensor.memory, tensor.info.bytes()};
  return shards_[tensor.shard].map.bytes().subspan(tensor.info.begin, tensor.info.bytes());
}

MutableByteSpan Checkpoint::WritableData(const Tensor& tensor) const {
  return shards_[tensor.shard].map.writable().subspan(tensor.info.begin, tensor.info.bytes());
}

void Checkpoint::CheckIntact() const {
  for (const Shard& shard : shards_) shard.map.CheckIntact();
}

void Checkpoint::CheckUnchanged() const {
  for (const Stamp& stamp : stamps_) {
    const FileState opened = {stamp.bytes, stamp.modified_ns};
    const std::optional<FileState> now = StateOf(stamp.path);
    if (now == opened) continue;
    std::string what = now ? "written" : "removed";
    if (now && now->bytes != stamp.bytes) {
      what = fmt::format("changed from {} to {} bytes", stamp.bytes, now->bytes);
    }
    Throw(ErrorCode::kConflict,
          "read {}: {} since the checkpoint was opened; somebody is writing it",
          stamp.path.string(), what);
  }
}

}  // namespace isthmus::tensor
