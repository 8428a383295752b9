// A Hugging Face checkpoint directory in memory.
#ifndef ISTHMUS_TENSOR_CHECKPOINT_H_
#define ISTHMUS_TENSOR_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "isthmus/base/mapped_file.h"
#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/tensor/safetensors.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::tensor {

inline constexpr std::string_view kIndexFile = "model.safetensors.index.json";
inline constexpr uint64_t kMaxIndexBytes = 256'000'000;

// An open checkpoint: its shards mapped, its other files listed. Weights are either exactly one
// *.safetensors file, or the shards that model.safetensors.index.json names: the index's weight_map
// and the shards must agree on every tensor in both directions, and no other *.safetensors file may
// lie beside them. Every other regular file below the directory belongs to the checkpoint, except
// names (of files or directories) that begin with '.'. Symbolic links to files are followed (the
// hub cache uses them); links to directories are not entered.
// Const methods are thread-safe; distinct tensors may be written by distinct threads.
class Checkpoint {
 public:
  struct Tensor {
    TensorInfo info;
    size_t shard = 0;                   // index into shards()
    const std::byte* memory = nullptr;  // where its data lies, if not in its shard
  };
  struct Shard {
    std::string file;  // relative to the directory
    MappedFile map;
    SafetensorsHeader header;

    ByteSpan header_bytes() const { return map.bytes().first(header.header_bytes); }
  };
  struct OtherFile {
    std::string path;  // relative, '/' between parts
    uint64_t bytes = 0;
  };

  // kNotFound if the directory or its weights are missing, kCorrupt if the content is malformed,
  // kInvalid if it is not a directory. Messages name the file.
  static Checkpoint Open(const fs::path& directory, Access access = Access::kRead);

  // Tensors' data by name. Whoever made it keeps the bytes alive and unchanged.
  using MemoryTensors = std::map<std::string, ByteSpan, std::less<>>;
  // A checkpoint whose tensors lie in memory: headers, layout and other files are those of
  // `directory`, and the tensors' data in its shards is never read. Throws also kInvalid, naming
  // the tensor, unless `tensors` has each tensor in its size, and no other.
  static Checkpoint OpenWithData(const fs::path& directory, const MemoryTensors& tensors);
  // Whether it was made by OpenWithData.
  bool in_memory() const { return in_memory_; }

  const fs::path& directory() const { return directory_; }
  const std::vector<Shard>& shards() const { return shards_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }       // by name, byte order
  const std::vector<OtherFile>& other_files() const { return files_; }  // by path
  // The paths of all files: shards, then the others.
  std::vector<std::string> AllFiles() const;
  // nullptr if there is no such tensor.
  const Tensor* Find(std::string_view name) const;

  ByteSpan Data(const Tensor& tensor) const;
  // Only if it was opened for Access::kReadWrite.
  MutableByteSpan WritableData(const Tensor& tensor) const;

  // Sizes: of the tensors' data, and of all files.
  uint64_t tensor_bytes() const { return tensor_bytes_; }
  uint64_t total_bytes() const { return total_bytes_; }

  // Throws kCorrupt if a mapped file lost bytes since Open (see MappedFile).
  void CheckIntact() const;
  // Throws kConflict if a file of the checkpoint changed size or modification time since Open:
  // somebody is still writing it.
  void CheckUnchanged() const;

 private:
  struct Stamp {
    fs::path path;
    uint64_t bytes = 0;
    int64_t modified_ns = 0;
  };

  fs::path directory_;
  std::vector<Shard> shards_;
  std::vector<Tensor> tensors_;
  std::vector<OtherFile> files_;
  std::vector<Stamp> stamps_;
  uint64_t tensor_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  bool in_memory_ = false;
};

// The table without tensor digests (they are zero): names, shapes, shard headers, other files with
// their digests. Reads the other files.
VersionTable DescribeCheckpoint(const Checkpoint& checkpoint);

// The full table: reads and hashes everything, on all threads of the pool.
VersionTable DigestCheckpoint(const Checkpoint& checkpoint, ThreadPool& pool,
                              Progress& progress = NoProgress());

}  // namespace isthmus::tensor

#endif  // ISTHMUS_TENSOR_CHECKPOINT_H_
