#include "isthmus/tensor/version_table.h"

#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "isthmus/base/error.h"

namespace isthmus::tensor {
namespace {

constexpr std::string_view kMagic = "isthmus version table 1\n";

// The least bytes that an entry takes, so that a count is checked before memory is allocated:
// strings of one byte with their length, one-byte varints, digests.
constexpr size_t kMinTensorBytes = 2 + 1 + 1 + 2 + 16;
constexpr size_t kMinShardBytes = 2 + 32;
constexpr size_t kMinFileBytes = 2 + 1 + 32;

// Throws `code` unless the keys are strictly ascending in byte order.
template <typename Entry>
void CheckOrder(const std::vector<Entry>& entries, std::string Entry::*key, ErrorCode code,
                std::string_view kind) {
  const auto at = std::ranges::adjacent_find(entries, std::ranges::greater_equal(), key);
  if (at == entries.end()) return;
  Throw(code, "version table: {} {:?} before {:?}, expected strictly ascending names", kind,
        (*at).*key, (*(at + 1)).*key);
}

template <typename Entry>
const Entry* FindIn(const std::vector<Entry>& entries, std::string Entry::*key,
                    std::string_view wanted) {
  const auto at = std::ranges::lower_bound(entries, wanted, std::less<>(), key);
  return at != entries.end() && (*at).*key == wanted ? &*at : nullptr;
}

void CheckFilePath(std::string_view path, ErrorCode code) {
  if (!IsFilePath(path)) Throw(code, "version table: {:?} is not a file path", path);
}

void CheckFile(const VersionTable& table, const VersionTable::File& file, ErrorCode code) {
  CheckFilePath(file.path, code);
  if (FindIn(table.shards, &VersionTable::Shard::file, file.path) != nullptr) {
    Throw(code, "version table: {:?} is listed as a shard and as another file", file.path);
  }
}

void CheckTensor(const VersionTable& table, const VersionTable::Tensor& tensor, ErrorCode code) {
  if (!IsTensorName(tensor.name)) {
    Throw(code, "version table: {:?} is not a tensor name", tensor.name);
  }
  if (tensor.shape.size() > kMaxRank) {
    Throw(code, "version table: tensor {:?} has rank {}, at most {} allowed", tensor.name,
          tensor.shape.size(), kMaxRank);
  }
  BytesOf(tensor.name, tensor.dtype, tensor.shape);
  if (FindIn(table.shards, &VersionTable::Shard::file, tensor.shard) == nullptr) {
    Throw(code, "version table: tensor {:?} lies in shard {:?}, which is not listed", tensor.name,
          tensor.shard);
  }
}

// What the format demands beyond the layout; `code` says whose fault a breach is.
void Check(const VersionTable& table, ErrorCode code) {
  CheckOrder(table.tensors, &VersionTable::Tensor::name, code, "tensor");
  CheckOrder(table.shards, &VersionTable::Shard::file, code, "shard");
  CheckOrder(table.files, &VersionTable::File::path, code, "file");
  for (const VersionTable::Shard& shard : table.shards) CheckFilePath(shard.file, code);
  for (const VersionTable::File& file : table.files) CheckFile(table, file, code);
  for (const VersionTable::Tensor& tensor : table.tensors) CheckTensor(table, tensor, code);
}

size_t ReadCount(ByteReader& reader, size_t min_entry_bytes, std::string_view kind) {
  const uint64_t count = reader.Varint();
  if (count > reader.remaining() / min_entry_bytes) {
    Throw(ErrorCode::kCorrupt, "version table: {} {}s cannot fit into the {} bytes left", count,
          kind, reader.remaining());
  }
  return static_cast<size_t>(count);
}

VersionTable::Tensor ReadTensor(ByteReader& reader) {
  VersionTable::Tensor tensor;
  tensor.name = reader.String(kMaxNameBytes);
  const uint8_t id = reader.U8();
  const std::optional<Dtype> dtype = DtypeFromId(id);
  if (!dtype) {
    Throw(ErrorCode::kCorrupt, "version table: tensor {:?} has unknown dtype id {}", tensor.name,
          id);
  }
  tensor.dtype = *dtype;
  const uint64_t rank = reader.Varint();
  if (rank > kMaxRank) {
    Throw(ErrorCode::kCorrupt, "version table: tensor {:?} has rank {}, at most {} allowed",
          tensor.name, rank, kMaxRank);
  }
  for (uint64_t i = 0; i < rank; ++i) tensor.shape.push_back(reader.Varint());
  tensor.shard = reader.String(kMaxNameBytes);
  tensor.digest = Xxh128Digest::Copy(reader.Take(16));
  return tensor;
}

VersionTable::Shard ReadShard(ByteReader& reader) {
  VersionTable::Shard shard;
  shard.file = reader.String(kMaxNameBytes);
  shard.header = Sha256Digest::Copy(reader.Take(32));
  return shard;
}

VersionTable::File ReadFile(ByteReader& reader) {
  VersionTable::File file;
  file.path = reader.String(kMaxNameBytes);
  file.bytes = reader.Varint();
  file.sha256 = Sha256Digest::Copy(reader.Take(32));
  return file;
}

template <typename Entry>
std::vector<Entry> ReadAll(ByteReader& reader, size_t min_entry_bytes, std::string_view kind,
                           Entry (*read)(ByteReader&)) {
  const size_t count = ReadCount(reader, min_entry_bytes, kind);
  std::vector<Entry> entries;
  entries.reserve(count);
  for (size_t i = 0; i < count; ++i) entries.push_back(read(reader));
  return entries;
}

void Write(const VersionTable::Tensor& tensor, ByteWriter& writer) {
  writer.String(tensor.name);
  writer.U8(static_cast<uint8_t>(tensor.dtype));
  writer.Varint(tensor.shape.size());
  for (uint64_t dim : tensor.shape) writer.Varint(dim);
  writer.String(tensor.shard);
  writer.Append(tensor.digest.span());
}

void Write(const VersionTable::Shard& shard, ByteWriter& writer) {
  writer.String(shard.file);
  writer.Append(shard.header.span());
}

void Write(const VersionTable::File& file, ByteWriter& writer) {
  writer.String(file.path);
  writer.Varint(file.bytes);
  writer.Append(file.sha256.span());
}

template <typename Entry>
void WriteAll(const std::vector<Entry>& entries, ByteWriter& writer) {
  writer.Varint(entries.size());
  for (const Entry& entry : entries) Write(entry, writer);
}

}  // namespace

void AppendLeafDigests(ByteSpan bytes, std::vector<Xxh128Digest>* leaves) {
  while (!bytes.empty()) {
    const ByteSpan leaf = bytes.first(std::min<size_t>(bytes.size(), kLeafBytes));
    leaves->push_back(Xxh3_128(leaf));
    bytes = bytes.subspan(leaf.size());
  }
}

Xxh128Digest DigestOfLeaves(const std::vector<Xxh128Digest>& leaves) {
  static_assert(sizeof(Xxh128Digest) == 16);  // so the digests lie concatenated in memory
  return Xxh3_128(std::as_bytes(std::span(leaves)));
}

Xxh128Digest TensorDigest(ByteSpan bytes) {
  std::vector<Xxh128Digest> leaves;
  AppendLeafDigests(bytes, &leaves);
  return DigestOfLeaves(leaves);
}

bool IsFilePath(std::string_view path) {
  if (path.empty() || path.size() > kMaxNameBytes || path.ends_with('/')) return false;
  if (!simdjson::validate_utf8(path.data(), path.size())) return false;
  char before = '/';
  for (char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return false;
    if (before == '/' && (c == '/' || c == '.')) return false;
    before = c;
  }
  return true;
}

ByteVector VersionTable::Serialize() const {
  Check(*this, ErrorCode::kInternal);
  ByteWriter writer;
  writer.Append(AsBytes(kMagic));
  WriteAll(tensors, writer);
  WriteAll(shards, writer);
  WriteAll(files, writer);
  return writer.Release();
}

VersionTable VersionTable::Parse(ByteSpan bytes) {
  ByteReader reader(bytes);
  if (AsText(reader.Take(kMagic.size())) != kMagic) {
    Throw(ErrorCode::kCorrupt, "version table: does not begin with {:?}", kMagic);
  }
  VersionTable table;
  table.tensors = ReadAll(reader, kMinTensorBytes, "tensor", ReadTensor);
  table.shards = ReadAll(reader, kMinShardBytes, "shard", ReadShard);
  table.files = ReadAll(reader, kMinFileBytes, "file", ReadFile);
  reader.ExpectEnd();
  Check(table, ErrorCode::kCorrupt);
  return table;
}

Sha256Digest VersionTable::Digest() const { return Sha256(Serialize()); }

const VersionTable::Tensor* VersionTable::Find(std::string_view name) const {
  return FindIn(tensors, &Tensor::name, name);
}

}  // namespace isthmus::tensor
