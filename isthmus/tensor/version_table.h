// What a version is, to the last bit: the digests of everything in a checkpoint, and one digest of
// them all. Normative description: docs/board.md, "Version table".
#ifndef ISTHMUS_TENSOR_VERSION_TABLE_H_
#define ISTHMUS_TENSOR_VERSION_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/digest.h"
#include "isthmus/tensor/safetensors.h"

namespace isthmus::tensor {

// A tensor's content digest is XXH3-128 over the concatenated XXH3-128 digests of its leaves: the
// pieces of this many bytes, the last one shorter, none for an empty tensor. A tree, so that all
// cores can work on one tensor and a patched chunk is hashed while it is in cache.
inline constexpr uint64_t kLeafBytes = uint64_t{1} << 20;

// The digests of the leaves of `bytes`, which begin at a leaf boundary of the tensor.
void AppendLeafDigests(ByteSpan bytes, std::vector<Xxh128Digest>* leaves);
Xxh128Digest DigestOfLeaves(const std::vector<Xxh128Digest>& leaves);
// Both steps for a tensor in memory.
Xxh128Digest TensorDigest(ByteSpan bytes);

// Whether a checkpoint may hold a file of this name: a relative path of 1 to kMaxNameBytes bytes
// without control characters, '/' between segments, no segment empty or beginning with '.'. So a
// path that passes never leads out of the directory that it is appended to.
bool IsFilePath(std::string_view path);

// A checkpoint's identity. Equality of tables is equality of every byte of the checkpoint's files.
struct VersionTable {
  struct Tensor {
    std::string name;
    Dtype dtype = Dtype::kU8;
    Shape shape;
    std::string shard;  // file that holds it
    Xxh128Digest digest;
    auto operator<=>(const Tensor&) const = default;
  };
  // A *.safetensors file. Its header says where each tensor lies, so header and tensors together
  // are the file.
  struct Shard {
    std::string file;
    Sha256Digest header;
    auto operator<=>(const Shard&) const = default;
  };
  // Any other file of the checkpoint.
  struct File {
    std::string path;  // relative, '/' between parts
    uint64_t bytes = 0;
    Sha256Digest sha256;
    auto operator<=>(const File&) const = default;
  };

  std::vector<Tensor> tensors;  // by name, byte order, unique
  std::vector<Shard> shards;    // by file, unique
  std::vector<File> files;      // by path, unique

  // The canonical bytes; their SHA-256 is the version's digest. kInternal if the table breaks a
  // rule that Parse checks: order, names, paths, ranks, a tensor's shard that is not listed.
  ByteVector Serialize() const;
  // Inverse of Serialize; kCorrupt for anything that Serialize does not produce (order included).
  static VersionTable Parse(ByteSpan bytes);
  Sha256Digest Digest() const;

  // nullptr if there is no such tensor.
  const Tensor* Find(std::string_view name) const;

  bool operator==(const VersionTable&) const = default;
};

}  // namespace isthmus::tensor

#endif  // ISTHMUS_TENSOR_VERSION_TABLE_H_
