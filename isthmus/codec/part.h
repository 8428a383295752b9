// A part: the container that patches are stored and sent in (docs/patch-format.md, section 2).
#ifndef ISTHMUS_CODEC_PART_H_
#define ISTHMUS_CODEC_PART_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/digest.h"
#include "isthmus/codec/chunk.h"
#include "isthmus/codec/model.h"
#include "isthmus/tensor/safetensors.h"

namespace isthmus::codec {

inline constexpr std::string_view kPartMagic = "ISTHMUS\x01";
inline constexpr uint16_t kPartMajor = 1;
inline constexpr uint16_t kPartMinor = 0;
inline constexpr size_t kPartHeaderBytes = 128;

// Limits of the format (docs/patch-format.md, section 2).
inline constexpr uint64_t kMaxTablesBytes = uint64_t{1} << 28;
inline constexpr uint32_t kMaxTensors = uint32_t{1} << 22;
inline constexpr uint64_t kMaxTensorBytes = (uint64_t{1} << 60) - 1;  // below 2^63 bits
inline constexpr uint32_t kMaxFiles = uint32_t{1} << 16;
inline constexpr uint32_t kMaxChunks = uint32_t{1} << 24;
inline constexpr uint64_t kMaxChunkNumber = uint64_t{1} << 40;
inline constexpr uint32_t kMaxModels = uint32_t{1} << 16;
inline constexpr uint64_t kMaxNamesBytes = uint64_t{1} << 28;  // of all tensor names of a part
inline constexpr uint64_t kMaxPayloadBytes = uint64_t{1} << 46;
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 28;
inline constexpr uint64_t kMaxPathBytes = 4096;

// The change of one tensor by this part.
struct TensorEntry {
  std::string name;
  tensor::Dtype dtype = tensor::Dtype::kU8;
  tensor::Shape shape;
  uint64_t changed = 0;     // units
  uint64_t sum_change = 0;  // of the position-keyed sum, modulo 2^64
};

// One chunk of the checkpoint (ChunkLayout) that has a payload.
struct ChunkEntry {
  uint64_t number = 0;
  Encoding encoding = Encoding::kRaw;
  uint64_t model = 0;   // index into models(), for sparse encodings
  uint64_t offset = 0;  // from the first payload byte
  uint64_t bytes = 0;
  uint32_t check = 0;  // low half of the payload's XXH3-64
};

enum class FileKind : uint8_t { kContent = 0, kRemoved = 1, kShardHeader = 2 };

struct FileEntry {
  std::string path;
  FileKind kind = FileKind::kContent;
  uint64_t raw_bytes = 0;
  uint64_t offset = 0;  // from the first payload byte
  uint64_t bytes = 0;
  Sha256Digest sha256;  // of the content
};

// The versions that a part leads between, where it states them.
struct VersionPair {
  Sha256Digest base;
  Sha256Digest target;
};

// Units of a tensor.
uint64_t UnitCount(tensor::Dtype dtype, uint64_t tensor_bytes);

// Throws kCorrupt unless `path` may name a file of a checkpoint (tensor::IsFilePath).
void CheckFilePath(std::string_view path);

// A part in memory, read and checked against every rule of sections 2 and 2.1. Holds views into
// the bytes that it was opened on: they must outlive it. Const methods are thread-safe.
class Part {
 public:
  // kInvalid for a newer major version or encoding, kCorrupt for everything else.
  static Part Open(ByteSpan bytes);

  const std::optional<VersionPair>& versions() const { return versions_; }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const std::vector<Model>& models() const { return models_; }
  const std::vector<ChunkEntry>& chunks() const { return chunks_; }  // by number
  const std::vector<FileEntry>& files() const { return files_; }

  // The payload of a chunk; kCorrupt if it does not match its digest.
  ByteSpan Payload(const ChunkEntry& chunk) const;
  // The content of a file entry that has one, checked against its SHA-256.
  ByteVector Content(const FileEntry& file) const;

 private:
  std::optional<VersionPair> versions_;
  std::vector<TensorEntry> tensors_;
  std::vector<Model> models_;
  std::vector<ChunkEntry> chunks_;
  std::vector<FileEntry> files_;
  ByteSpan payload_;
};

// Builds one part in memory. Entries may be added in any order.
class PartBuilder {
 public:
  // Adds to what the part does to a tensor: counts and sums of entries of one name add up.
  void AddTensor(const TensorEntry& entry);
  // entry.number and entry.encoding count, the rest is filled in. Sparse encodings need a model;
  // equal models are stored once.
  void AddChunk(const ChunkEntry& entry, const Model* model, ByteVector payload);
  // raw_bytes and sha256 are filled in here. `content` is ignored for kRemoved.
  void AddFile(std::string path, FileKind kind, ByteSpan content);

  bool empty() const { return chunks_.empty() && files_.empty(); }
  uint64_t payload_bytes() const { return payload_bytes_; }

  // Hands the part's bytes to `sink`, in order, and leaves the builder empty. Returns their sum.
  uint64_t Finish(const std::optional<VersionPair>& versions,
                  const std::function<void(ByteSpan)>& sink);

 private:
  struct ChunkItem {
    ChunkEntry entry;
    ByteVector payload;
  };
  struct FileItem {
    FileEntry entry;
    ByteVector payload;
  };
  void Sort();
  void CheckLimits() const;
  ByteVector Tables() const;
  ByteVector Checks() const;

  std::map<std::string, TensorEntry> tensors_;
  std::map<std::string, uint64_t> model_index_;  // by serialized form
  ByteVector models_;                            // serialized, one after another
  std::vector<ChunkItem> chunks_;
  std::vector<FileItem> files_;
  uint64_t payload_bytes_ = 0;
};

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_PART_H_
