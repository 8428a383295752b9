#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/codec/frame.h"
#include "isthmus/codec/part.h"
#include "isthmus/codec/part_layout.h"

namespace isthmus::codec {
namespace {

// Tables are small beside the payloads, but not in the patch of a small model.
constexpr int kTablesLevel = 19;
constexpr size_t kSmallTablesBytes = size_t{1} << 20;

size_t SharedPrefix(std::string_view a, std::string_view b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(ends.first - a.begin());
}

void WriteTensor(std::string_view previous_name, const TensorEntry& entry, ByteWriter* out) {
  const std::string_view name = entry.name;
  const size_t shared = SharedPrefix(previous_name, name);
  out->Varint(shared);
  out->String(name.substr(shared));
  out->U8(static_cast<uint8_t>(entry.dtype));
  out->Varint(entry.shape.size());
  for (const uint64_t dimension : entry.shape) out->Varint(dimension);
  out->Varint(entry.changed);
}

// `least`: the lowest number that the entry can have.
void WriteChunk(uint64_t least, const ChunkEntry& entry, ByteWriter* out) {
  out->Varint(entry.number - least);
  out->U8(static_cast<uint8_t>(entry.encoding));
  if (IsSparse(entry.encoding)) out->Varint(entry.model);
  out->Varint(entry.bytes);
}

void WriteFile(const FileEntry& entry, ByteWriter* out) {
  out->String(entry.path);
  out->U8(static_cast<uint8_t>(entry.kind));
  if (entry.kind == FileKind::kRemoved) return;
  out->Varint(entry.raw_bytes);
  out->Varint(entry.bytes);
  out->Append(entry.sha256.span());
}

void CheckPartLimit(std::string_view what, uint64_t found, uint64_t allowed) {
  if (found > allowed) {
    Throw(ErrorCode::kInvalid, "write part: {} {}, at most {} allowed", found, what, allowed);
  }
}

// What the header says about the rest of the part.
struct Counts {
  uint64_t tables_raw_bytes;
  uint64_t tensors;
  uint64_t files;
  uint64_t chunks;
  uint64_t models;
  uint64_t payload_bytes;
};

ByteVector MakeHeader(const std::optional<VersionPair>& versions, const Counts& counts,
                      ByteSpan tables_frame, ByteSpan checks) {
  ByteWriter out;
  out.Append(AsBytes(kPartMagic));
  out.Le(kPartMajor);
  out.Le(kPartMinor);
  out.Le(versions ? kVersionsStated : uint32_t{0});
  out.Le(static_cast<uint32_t>(tables_frame.size()));
  out.Le(static_cast<uint32_t>(counts.tables_raw_bytes));
  out.Le(static_cast<uint32_t>(counts.tensors));
  out.Le(static_cast<uint32_t>(counts.files));
  out.Le(counts.payload_bytes);
  const VersionPair stated = versions.value_or(VersionPair{});
  out.Append(stated.base.span());
  out.Append(stated.target.span());
  out.Le(static_cast<uint32_t>(counts.chunks));
  out.Le(static_cast<uint32_t>(counts.models));
  out.Append(HeaderDigest(out.bytes(), tables_frame, checks).span());
  return out.Release();
}

}  // namespace

void PartBuilder::AddTensor(const TensorEntry& entry) {
  const auto [place, is_new] = tensors_.try_emplace(entry.name, entry);
  if (is_new) return;
  place->second.changed += entry.changed;
  place->second.sum_change += entry.sum_change;
}

void PartBuilder::AddChunk(const ChunkEntry& entry, const Model* model, ByteVector payload) {
  ChunkItem item = {entry, std::move(payload)};
  item.entry.bytes = item.payload.size();
  item.entry.check = static_cast<uint32_t>(Xxh3_64(item.payload));
  if (IsSparse(entry.encoding)) {
    ByteWriter out;
    model->Write(&out);
    const auto [place, is_new] =
        model_index_.try_emplace(std::string(AsText(out.bytes())), model_index_.size());
    if (is_new) models_.insert(models_.end(), out.bytes().begin(), out.bytes().end());
    item.entry.model = place->second;
  }
  payload_bytes_ += item.payload.size();
  chunks_.push_back(std::move(item));
}

void PartBuilder::AddFile(std::string path, FileKind kind, ByteSpan content) {
  CheckFilePath(path);
  FileItem item;
  item.entry.path = std::move(path);
  item.entry.kind = kind;
  if (kind != FileKind::kRemoved) {
    CheckPartLimit("bytes in file " + item.entry.path, content.size(), kMaxFileBytes);
    item.entry.raw_bytes = content.size();
    item.entry.sha256 = Sha256(content);
    AppendFrame(content, &item.payload);
    item.entry.bytes = item.payload.size();
  }
  payload_bytes_ += item.payload.size();
  files_.push_back(std::move(item));
}

void PartBuilder::Sort() {
  std::ranges::sort(chunks_, {}, [](const ChunkItem& item) { return item.entry.number; });
  std::ranges::sort(files_, {}, [](const FileItem& item) { return item.entry.path; });
}

ByteVector PartBuilder::Tables() const {
  ByteWriter out;
  std::string_view previous;
  for (const auto& [name, entry] : tensors_) {
    WriteTensor(previous, entry, &out);
    previous = name;
  }
  out.Append(models_);
  uint64_t least = 0;
  for (const ChunkItem& item : chunks_) {
    WriteChunk(least, item.entry, &out);
    least = item.entry.number + 1;
  }
  for (const FileItem& item : files_) WriteFile(item.entry, &out);
  return out.Release();
}

ByteVector PartBuilder::Checks() const {
  ByteWriter out;
  for (const auto& [name, entry] : tensors_) out.Le(entry.sum_change);
  for (const ChunkItem& item : chunks_) out.Le(item.entry.check);
  return out.Release();
}

void PartBuilder::CheckLimits() const {
  CheckPartLimit("tensors", tensors_.size(), kMaxTensors);
  CheckPartLimit("models", model_index_.size(), kMaxModels);
  CheckPartLimit("chunks", chunks_.size(), kMaxChunks);
  CheckPartLimit("files", files_.size(), kMaxFiles);
  CheckPartLimit("payload bytes", payload_bytes_, kMaxPayloadBytes);
}

uint64_t PartBuilder::Finish(const std::optional<VersionPair>& versions,
                             const std::function<void(ByteSpan)>& sink) {
  Sort();
  CheckLimits();
  const ByteVector tables = Tables();
  CheckPartLimit("bytes of tables", tables.size(), kMaxTablesBytes);
  const ByteVector checks = Checks();
  ByteVector frame;
  AppendFrame(tables, &frame, tables.size() <= kSmallTablesBytes ? kTablesLevel : kDefaultLevel);
  sink(MakeHeader(versions,
                  {tables.size(), tensors_.size(), files_.size(), chunks_.size(),
                   model_index_.size(), payload_bytes_},
                  frame, checks));
  sink(frame);
  sink(checks);
  for (const ChunkItem& item : chunks_) sink(item.payload);
  for (const FileItem& item : files_) sink(item.payload);
  const uint64_t bytes = kPartHeaderBytes + frame.size() + checks.size() + payload_bytes_;
  *this = PartBuilder();
  return bytes;
}

}  // namespace isthmus::codec
