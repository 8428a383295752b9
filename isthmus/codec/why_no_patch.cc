#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "isthmus/codec/diff.h"
#include "isthmus/codec/paths.h"

namespace isthmus::codec {
namespace {

using tensor::Checkpoint;

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

}  // namespace

std::optional<std::string> WhyNoPatch(const Checkpoint& base, const Checkpoint& next) {
  if (auto why = WhyTensorsDiffer(base, next)) return why;
  if (auto why = WhyShardsDiffer(base, next)) return why;
  if (auto why = WhyPlacesDiffer(base, next)) return why;
  if (auto why = WhyLargeFilesDiffer(base, next)) return why;
  if (auto why = WhyLargeFilesDiffer(next, base)) return why;
  return WhyPathsCollide(base, next);
}

}  // namespace isthmus::codec
