#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/codec/frame.h"
#include "isthmus/codec/part.h"
#include "isthmus/codec/part_layout.h"

namespace isthmus::codec {
namespace {

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
  out->U8(static_cast<uint8_t>(entry.encoding));
  out->Varint(entry.first_chunk);
  out->Varint(entry.chunks.size());
  out->Varint(entry.changed);
  out->Append(entry.old_digest.span());
  out->Append(entry.new_digest.span());
  for (const ChunkEntry& chunk : entry.chunks) {
    out->Varint(chunk.bytes);
    if (chunk.bytes > 0) out->Le(chunk.digest);
  }
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

ByteVector MakeHeader(const std::optional<VersionPair>& versions, uint64_t tables_raw_bytes,
                      ByteSpan tables_frame, uint64_t tensor_count, uint64_t file_count,
                      uint64_t payload_bytes) {
  ByteWriter out;
  out.Append(AsBytes(kPartMagic));
  out.Le(kPartMajor);
  out.Le(kPartMinor);
  out.Le(versions ? kVersionsStated : uint32_t{0});
  out.Le(static_cast<uint32_t>(tables_frame.size()));
  out.Le(static_cast<uint32_t>(tables_raw_bytes));
  out.Le(static_cast<uint32_t>(tensor_count));
  out.Le(static_cast<uint32_t>(file_count));
  out.Le(payload_bytes);
  const VersionPair stated = versions.value_or(VersionPair{});
  out.Append(stated.base.span());
  out.Append(stated.target.span());
  out.Le(uint64_t{0});
  out.Append(HeaderDigest(out.bytes(), tables_frame).span());
  return out.Release();
}

}  // namespace

void PartBuilder::AddTensor(TensorEntry entry, std::vector<ByteVector> payloads) {
  if (entry.chunks.size() != payloads.size()) {
    Throw(ErrorCode::kInternal, "add tensor {}: {} chunks, {} payloads", entry.name,
          entry.chunks.size(), payloads.size());
  }
  for (size_t i = 0; i < payloads.size(); ++i) {
    entry.chunks[i].bytes = payloads[i].size();
    entry.chunks[i].digest = Xxh3_64(payloads[i]);
    payload_bytes_ += payloads[i].size();
  }
  tensors_.push_back({std::move(entry), std::move(payloads)});
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

ByteVector PartBuilder::Tables() const {
  ByteWriter out;
  std::string_view previous;
  for (const TensorItem& item : tensors_) {
    WriteTensor(previous, item.entry, &out);
    previous = item.entry.name;
  }
  for (const FileItem& item : files_) WriteFile(item.entry, &out);
  return out.Release();
}

uint64_t PartBuilder::Finish(const std::optional<VersionPair>& versions,
                             const std::function<void(ByteSpan)>& sink) {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const auto& a, const auto& b) { return a.entry.name < b.entry.name; });
  std::sort(files_.begin(), files_.end(),
            [](const auto& a, const auto& b) { return a.entry.path < b.entry.path; });
  const ByteVector tables = Tables();
  CheckPartLimit("bytes of tables", tables.size(), kMaxTablesBytes);
  uint64_t chunks = 0;
  for (const TensorItem& item : tensors_) chunks += item.payloads.size();
  CheckPartLimit("chunks", chunks, kMaxChunks);
  CheckPartLimit("tensors", tensors_.size(), kMaxTensors);
  CheckPartLimit("files", files_.size(), kMaxFiles);
  CheckPartLimit("payload bytes", payload_bytes_, kMaxPayloadBytes);
  ByteVector frame;
  AppendFrame(tables, &frame);
  sink(MakeHeader(versions, tables.size(), frame, tensors_.size(), files_.size(), payload_bytes_));
  sink(frame);
  for (const TensorItem& item : tensors_) {
    for (const ByteVector& payload : item.payloads) sink(payload);
  }
  for (const FileItem& item : files_) sink(item.payload);
  const uint64_t bytes = kPartHeaderBytes + frame.size() + payload_bytes_;
  *this = PartBuilder();
  return bytes;
}

}  // namespace isthmus::codec
