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
  CheckLimit("the reserved field", in.Le<uint64_t>(), 0);
  header.digest = Xxh128Digest::Copy(in.Take(16));
  return header;
}

void CheckSizeAndDigest(ByteSpan bytes, const Header& header) {
  const uint64_t expected = kPartHeaderBytes + header.tables_bytes + header.payload_bytes;
  if (bytes.size() != expected) {
    Throw(ErrorCode::kCorrupt, "read part: {} bytes, its header states {}", bytes.size(), expected);
  }
  const ByteSpan tables = bytes.subspan(kPartHeaderBytes, header.tables_bytes);
  const Xxh128Digest digest = HeaderDigest(bytes.first(kDigestOffset), tables);
  if (digest != header.digest) {
    Throw(ErrorCode::kCorrupt, "read part header: digest {}, computed {}", header.digest.Hex(),
          digest.Hex());
  }
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
      entry.encoding = ReadEncoding();
      entry.first_chunk = in_.Varint();
      Chunks(bytes, &entry);
    } catch (const Error& error) {
      throw error.Annotated("tensor " + entry.name);
    }
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
    if (id > static_cast<uint8_t>(Encoding::kDirect)) {
      Throw(ErrorCode::kInvalid, "encoding {}: newer than this program, which knows 0 to 2", id);
    }
    return static_cast<Encoding>(id);
  }

  void Chunks(uint64_t tensor_bytes, TensorEntry* entry) {
    const uint64_t total = ChunkCount(entry->dtype, tensor_bytes);
    const uint64_t count = in_.Varint();
    if (count == 0 || count > total || entry->first_chunk > total - count) {
      Throw(ErrorCode::kCorrupt, "chunks {} to {} (of {} in the tensor)", entry->first_chunk,
            entry->first_chunk + count, total);
    }
    // Every chunk takes at least a byte of the tables: this bounds the allocation below.
    if (count > in_.remaining()) {
      Throw(ErrorCode::kCorrupt, "{} chunks in {} bytes of tables", count, in_.remaining());
    }
    chunks_ += count;
    CheckLimit("the number of chunks", chunks_, kMaxChunks);
    ReadCounts(tensor_bytes, count, entry);
    entry->chunks.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < entry->chunks.size(); ++i) {
      ReadChunk(ChunkLength(*entry, tensor_bytes, entry->first_chunk + i), &entry->chunks[i]);
    }
  }

  void ReadCounts(uint64_t tensor_bytes, uint64_t count, TensorEntry* entry) {
    entry->changed = in_.Varint();
    const uint64_t units = std::min(count * kChunkUnits, UnitCount(entry->dtype, tensor_bytes) -
                                                             entry->first_chunk * kChunkUnits);
    if (entry->changed == 0 || entry->changed > units) {
      Throw(ErrorCode::kCorrupt, "{} changed units, 1 to {} allowed", entry->changed, units);
    }
    entry->old_digest = Xxh128Digest::Copy(in_.Take(16));
    entry->new_digest = Xxh128Digest::Copy(in_.Take(16));
  }

  static uint64_t ChunkLength(const TensorEntry& entry, uint64_t tensor_bytes, uint64_t chunk) {
    const uint64_t full = ChunkBytes(entry.dtype);
    return std::min(full, tensor_bytes - chunk * full);
  }

  void ReadChunk(uint64_t chunk_bytes, ChunkEntry* chunk) {
    chunk->bytes = in_.Varint();
    if (chunk->bytes > chunk_bytes + kPayloadSlackBytes) {
      Throw(ErrorCode::kCorrupt, "chunk payload of {} bytes, at most {} allowed", chunk->bytes,
            chunk_bytes + kPayloadSlackBytes);
    }
    chunk->offset = Claim(chunk->bytes);
    if (chunk->bytes > 0) chunk->digest = in_.Le<uint64_t>();
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
  uint64_t chunks_ = 0;
  uint64_t names_bytes_ = 0;
};

void ReadTensors(uint32_t count, TableReader* in, std::vector<TensorEntry>* tensors) {
  // Grown as entries are read: the count alone, which is input, reserves nothing.
  for (uint32_t i = 0; i < count; ++i) {
    tensors->push_back(in->Tensor(tensors->empty() ? "" : tensors->back().name));
  }
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

uint64_t ChunkBytes(tensor::Dtype dtype) { return kChunkUnits * tensor::UnitBytes(dtype); }

uint64_t ChunkCount(tensor::Dtype dtype, uint64_t tensor_bytes) {
  const uint64_t full = ChunkBytes(dtype);
  return tensor_bytes / full + (tensor_bytes % full != 0 ? 1 : 0);
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
  CheckSizeAndDigest(bytes, header);
  ByteVector tables(header.tables_raw_bytes);
  ReadFrame(bytes.subspan(kPartHeaderBytes, header.tables_bytes), tables);

  Part part;
  part.versions_ = header.versions;
  part.payload_ = bytes.subspan(kPartHeaderBytes + header.tables_bytes);
  TableReader in(tables);
  ReadTensors(header.tensor_count, &in, &part.tensors_);
  ReadFiles(header.file_count, &in, &part.files_);
  in.Finish(header.payload_bytes);
  return part;
}

ByteSpan Part::Payload(const ChunkEntry& chunk) const {
  const ByteSpan payload = payload_.subspan(chunk.offset, chunk.bytes);
  if (Xxh3_64(payload) != chunk.digest) {
    Throw(ErrorCode::kCorrupt, "read chunk payload at {}: digest {:016x}, expected {:016x}",
          chunk.offset, Xxh3_64(payload), chunk.digest);
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
