// Reading parts. Writing is in part_builder.cc.
#include "isthmus/codec/part.h"

#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/codec/frame.h"
#include "isthmus/codec/part_layout.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::codec {
namespace {

struct Header {
  uint32_t flags = 0;
  uint32_t tables_bytes = 0;
  uint32_t tables_raw_bytes = 0;
  uint32_t tensor_count = 0;
  uint32_t file_count = 0;
  uint32_t chunk_count = 0;
  uint32_t model_count = 0;
  uint64_t payload_bytes = 0;
  std::optional<VersionPair> versions;
  Xxh128Digest digest;
};

void CheckLimit(std::string_view field, uint64_t found, uint64_t allowed) {
  if (found > allowed) {
    Throw(ErrorCode::kCorrupt, "read part: {} is {}, at most {} allowed", field, found, allowed);
  }
}

void CheckMagicAndMajor(ByteReader* in) {
  if (AsText(in->Take(kPartMagic.size())) != kPartMagic) {
    Throw(ErrorCode::kCorrupt, "read part header: not a patch (the magic bytes differ)");
  }
  const auto major = in->Le<uint16_t>();
  if (major != kPartMajor) {
    Throw(ErrorCode::kInvalid, "read part header: format version {}, this program reads {}", major,
          kPartMajor);
  }
}

bool AllZero(ByteSpan bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::optional<VersionPair> ReadVersions(ByteReader* in, bool stated) {
  const ByteSpan base = in->Take(32);
  const ByteSpan target = in->Take(32);
  if (stated) return VersionPair{Sha256Digest::Copy(base), Sha256Digest::Copy(target)};
  if (!AllZero(base) || !AllZero(target)) {
    Throw(ErrorCode::kCorrupt, "read part header: version digests without their flag");
  }
  return std::nullopt;
}

Header ReadHeader(ByteSpan bytes) {
  ByteReader in(bytes);
  CheckMagicAndMajor(&in);
  in.Le<uint16_t>();  // minor: any
  Header header;
  header.flags = in.Le<uint32_t>();
  CheckLimit("flags", header.flags, kVersionsStated);
  header.tables_bytes = in.Le<uint32_t>();
  header.tables_raw_bytes = in.Le<uint32_t>();
  CheckLimit("tables_raw_bytes", header.tables_raw_bytes, kMaxTablesBytes);
  header.tensor_count = in.Le<uint32_t>();
  CheckLimit("tensor_count", header.tensor_count, kMaxTensors);
  header.file_count = in.Le<uint32_t>();
  CheckLimit("file_count", header.file_count, kMaxFiles);
  header.payload_bytes = in.Le<uint64_t>();
  CheckLimit("payload_bytes", header.payload_bytes, kMaxPayloadBytes);
  header.versions = ReadVersions(&in, (header.flags & kVersionsStated) != 0);
  header.chunk_count = in.Le<uint32_t>();
  CheckLimit("chunk_count", header.chunk_count, kMaxChunks);
  header.model_count = in.Le<uint32_t>();
  CheckLimit("model_count", header.model_count, kMaxModels);
  header.digest = Xxh128Digest::Copy(in.Take(16));
  return header;
}

// The regions behind the header.
struct Regions {
  ByteSpan tables;
  ByteSpan checks;
  ByteSpan payloads;
};

Regions CheckSizeAndDigest(ByteSpan bytes, const Header& header) {
  const uint64_t checks_bytes = ChecksBytes(header.tensor_count, header.chunk_count);
  const uint64_t payloads_at = kPartHeaderBytes + header.tables_bytes + checks_bytes;
  const uint64_t expected = payloads_at + header.payload_bytes;
  if (bytes.size() != expected) {
    Throw(ErrorCode::kCorrupt, "read part: {} bytes, its header states {}", bytes.size(), expected);
  }
  const Regions regions = {bytes.subspan(kPartHeaderBytes, header.tables_bytes),
                           bytes.subspan(kPartHeaderBytes + header.tables_bytes, checks_bytes),
                           bytes.subspan(payloads_at)};
  const Xxh128Digest digest =
      HeaderDigest(bytes.first(kDigestOffset), regions.tables, regions.checks);
  if (digest != header.digest) {
    Throw(ErrorCode::kCorrupt, "read part header: digest {}, computed {}", header.digest.Hex(),
          digest.Hex());
  }
  return regions;
}

// Reads the tables; keeps count of the payload bytes that the entries claim.
class TableReader {
 public:
  explicit TableReader(ByteSpan tables) : in_(tables) {}

  TensorEntry Tensor(std::string_view previous_name) {
    TensorEntry entry;
    entry.name = Name(previous_name);
    try {
      entry.dtype = Dtype();
      entry.shape = Shape();
      const uint64_t bytes = tensor::BytesOf(entry.name, entry.dtype, entry.shape);
      CheckLimit("size in bytes", bytes, kMaxTensorBytes);
      const uint64_t units = UnitCount(entry.dtype, bytes);
      entry.changed = in_.Varint();
      if (entry.changed == 0 || entry.changed > units) {
        Throw(ErrorCode::kCorrupt, "{} changed units, 1 to {} allowed", entry.changed, units);
      }
    } catch (const Error& error) {
      throw error.Annotated("tensor " + entry.name);
    }
    return entry;
  }

  Model ReadModel() { return Model::Read(&in_); }

  // `previous`: the entry before it, or nullptr.
  ChunkEntry Chunk(const ChunkEntry* previous, const std::vector<Model>& models) {
    ChunkEntry entry;
    const uint64_t skipped = in_.Varint();
    const uint64_t least = previous == nullptr ? 0 : previous->number + 1;
    if (skipped >= kMaxChunkNumber - least) {
      Throw(ErrorCode::kCorrupt, "read chunk entry: number {} + {}, less than {} allowed", least,
            skipped, kMaxChunkNumber);
    }
    entry.number = least + skipped;
    entry.encoding = ReadEncoding();
    if (IsSparse(entry.encoding)) entry.model = ReadModelIndex(entry, models);
    entry.bytes = in_.Varint();
    const uint64_t most = 4 * kChunkUnits + kPayloadSlackBytes;
    if (entry.bytes == 0 || entry.bytes > most) {
      Throw(ErrorCode::kCorrupt, "chunk {}: payload of {} bytes, 1 to {} allowed", entry.number,
            entry.bytes, most);
    }
    entry.offset = Claim(entry.bytes);
    return entry;
  }

  FileEntry File() {
    FileEntry entry;
    entry.path = in_.String(kMaxPathBytes);
    CheckFilePath(entry.path);
    const uint8_t kind = in_.U8();
    if (kind > static_cast<uint8_t>(FileKind::kShardHeader)) {
      Throw(ErrorCode::kCorrupt, "file {}: kind {}, at most 2 allowed", entry.path, kind);
    }
    entry.kind = static_cast<FileKind>(kind);
    if (entry.kind == FileKind::kRemoved) return entry;
    entry.raw_bytes = in_.Varint();
    if (entry.raw_bytes > kMaxFileBytes) {
      Throw(ErrorCode::kCorrupt, "file {}: {} bytes, at most {} allowed", entry.path,
            entry.raw_bytes, kMaxFileBytes);
    }
    entry.bytes = in_.Varint();
    entry.offset = Claim(entry.bytes);
    entry.sha256 = Sha256Digest::Copy(in_.Take(32));
    return entry;
  }

  void Finish(uint64_t payload_bytes) const {
    in_.ExpectEnd();
    if (claimed_ != payload_bytes) {
      Throw(ErrorCode::kCorrupt, "read part tables: payloads of {} bytes, the header states {}",
            claimed_, payload_bytes);
    }
  }

 private:
  std::string Name(std::string_view previous) {
    const uint64_t shared = in_.Varint();
    if (shared > previous.size()) {
      Throw(ErrorCode::kCorrupt, "read tensor name: shares {} bytes with a name of {}", shared,
            previous.size());
    }
    std::string name(previous.substr(0, static_cast<size_t>(shared)));
    name += in_.String(tensor::kMaxNameBytes - shared);
    if (!tensor::IsTensorName(name) || name <= previous) {
      Throw(ErrorCode::kCorrupt, "read tensor name {:?}: no name, or not after the one before it",
            name);
    }
    names_bytes_ += name.size();
    CheckLimit("the size of all tensor names", names_bytes_, kMaxNamesBytes);
    return name;
  }

  tensor::Dtype Dtype() {
    const uint8_t id = in_.U8();
    const auto dtype = tensor::DtypeFromId(id);
    if (!dtype) Throw(ErrorCode::kCorrupt, "dtype {}: unknown", id);
    return *dtype;
  }

  tensor::Shape Shape() {
    const uint64_t rank = in_.Varint();
    if (rank > tensor::kMaxRank) {
      Throw(ErrorCode::kCorrupt, "rank {}, at most {} allowed", rank, tensor::kMaxRank);
    }
    tensor::Shape shape(static_cast<size_t>(rank));
    for (uint64_t& dimension : shape) dimension = in_.Varint();
    return shape;
  }

  Encoding ReadEncoding() {
    const uint8_t id = in_.U8();
    if (id > static_cast<uint8_t>(Encoding::kContext)) {
      Throw(ErrorCode::kInvalid, "encoding {}: newer than this program, which knows 0 to 3", id);
    }
    return static_cast<Encoding>(id);
  }

  uint64_t ReadModelIndex(const ChunkEntry& entry, const std::vector<Model>& models) {
    const uint64_t index = in_.Varint();
    if (index >= models.size()) {
      Throw(ErrorCode::kCorrupt, "chunk {}: model {} of {}", entry.number, index, models.size());
    }
    if (entry.encoding == Encoding::kDirect && models[index].classes.size() != 1) {
      Throw(ErrorCode::kCorrupt, "chunk {}: encoding direct with a model of {} classes, 1 expected",
            entry.number, models[index].classes.size());
    }
    return index;
  }

  // The offset of the next `bytes` payload bytes.
  uint64_t Claim(uint64_t bytes) {
    const uint64_t offset = claimed_;
    if (!CheckedAdd(claimed_, bytes, &claimed_)) {
      Throw(ErrorCode::kCorrupt, "read part tables: payload sizes overflow 64 bits");
    }
    return offset;
  }

  ByteReader in_;
  uint64_t claimed_ = 0;
  uint64_t names_bytes_ = 0;
};

void ReadTensors(uint32_t count, TableReader* in, std::vector<TensorEntry>* tensors) {
  // Grown as entries are read: the count alone, which is input, reserves nothing.
  for (uint32_t i = 0; i < count; ++i) {
    tensors->push_back(in->Tensor(tensors->empty() ? "" : tensors->back().name));
  }
}

void ReadModels(uint32_t count, TableReader* in, std::vector<Model>* models) {
  for (uint32_t i = 0; i < count; ++i) models->push_back(in->ReadModel());
}

void ReadChunks(uint32_t count, const std::vector<Model>& models, TableReader* in,
                std::vector<ChunkEntry>* chunks) {
  for (uint32_t i = 0; i < count; ++i) {
    chunks->push_back(in->Chunk(chunks->empty() ? nullptr : &chunks->back(), models));
  }
}

// Their size was checked with the header.
void ReadChecks(ByteSpan checks, std::vector<TensorEntry>* tensors,
                std::vector<ChunkEntry>* chunks) {
  ByteReader in(checks);
  for (TensorEntry& entry : *tensors) entry.sum_change = in.Le<uint64_t>();
  for (ChunkEntry& entry : *chunks) entry.check = in.Le<uint32_t>();
  in.ExpectEnd();
}

void ReadFiles(uint32_t count, TableReader* in, std::vector<FileEntry>* files) {
  for (uint32_t i = 0; i < count; ++i) {
    FileEntry entry = in->File();
    if (!files->empty() && files->back().path >= entry.path) {
      Throw(ErrorCode::kCorrupt, "file {}: not after the one before it", entry.path);
    }
    files->push_back(std::move(entry));
  }
}

}  // namespace

uint64_t UnitCount(tensor::Dtype dtype, uint64_t tensor_bytes) {
  return tensor_bytes / tensor::UnitBytes(dtype);
}

void CheckFilePath(std::string_view path) {
  if (tensor::IsFilePath(path)) return;
  Throw(ErrorCode::kCorrupt, "file path {:?}: not a plain relative path", path.substr(0, 256));
}

Part Part::Open(ByteSpan bytes) {
  if (bytes.size() < kPartHeaderBytes) {
    Throw(ErrorCode::kCorrupt, "read part: {} bytes, at least {} expected", bytes.size(),
          kPartHeaderBytes);
  }
  const Header header = ReadHeader(bytes);
  const Regions regions = CheckSizeAndDigest(bytes, header);
  ByteVector tables(header.tables_raw_bytes);
  ReadFrame(regions.tables, tables);

  Part part;
  part.versions_ = header.versions;
  part.payload_ = regions.payloads;
  TableReader in(tables);
  ReadTensors(header.tensor_count, &in, &part.tensors_);
  ReadModels(header.model_count, &in, &part.models_);
  ReadChunks(header.chunk_count, part.models_, &in, &part.chunks_);
  ReadFiles(header.file_count, &in, &part.files_);
  in.Finish(header.payload_bytes);
  ReadChecks(regions.checks, &part.tensors_, &part.chunks_);
  return part;
}

ByteSpan Part::Payload(const ChunkEntry& chunk) const {
  const ByteSpan payload = payload_.subspan(chunk.offset, chunk.bytes);
  const auto found = static_cast<uint32_t>(Xxh3_64(payload));
  if (found != chunk.check) {
    Throw(ErrorCode::kCorrupt, "read payload of chunk {}: digest {:08x}, expected {:08x}",
          chunk.number, found, chunk.check);
  }
  return payload;
}

ByteVector Part::Content(const FileEntry& file) const {
  ByteVector content(file.raw_bytes);
  try {
    ReadFrame(payload_.subspan(file.offset, file.bytes), content);
  } catch (const Error& error) {
    throw error.Annotated("file " + file.path);
  }
  const Sha256Digest found = Sha256(content);
  if (found != file.sha256) {
    Throw(ErrorCode::kCorrupt, "file {}: content {}, expected {}", file.path, FormatSha256(found),
          FormatSha256(file.sha256));
  }
  return content;
}

}  // namespace isthmus::codec
