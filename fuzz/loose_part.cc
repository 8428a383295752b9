#include "fuzz/loose_part.h"

#include <zstd.h>

#include "isthmus/base/error.h"
#include "isthmus/codec/frame.h"
#include "isthmus/codec/model.h"
#include "isthmus/codec/part.h"
#include "isthmus/codec/part_layout.h"

namespace isthmus::fuzz {
namespace {

using codec::kPartHeaderBytes;

// Places in the header (docs/patch-format.md, section 2).
constexpr size_t kTablesBytesAt = 16;
constexpr size_t kTablesRawBytesAt = 20;
constexpr size_t kTensorCountAt = 24;
constexpr size_t kFileCountAt = 28;
constexpr size_t kPayloadBytesAt = 32;
constexpr size_t kChunkCountAt = 104;
constexpr size_t kModelCountAt = 108;

constexpr uint64_t kMaxTables = uint64_t{1} << 20;

ByteVector Copy(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

void Append(ByteSpan bytes, ByteVector* out) {
  out->insert(out->end(), bytes.begin(), bytes.end());
}

uint32_t HeaderField(ByteSpan part, size_t at) { return LoadLe<uint32_t>(part.data() + at); }

// Reads by calling `read`; the bytes that it read.
template <typename Read>
ByteVector BytesRead(ByteSpan tables, ByteReader* in, const Read& read) {
  const size_t begin = in->position();
  read();
  return Copy(tables.subspan(begin, in->position() - begin));
}

void SkipTensor(ByteReader* in) {
  in->Varint();
  in->String(in->remaining());
  in->U8();
  for (uint64_t left = in->Varint(); left > 0; --left) in->Varint();
  in->Varint();
}

// Entries of the tables, and what lies behind them.
LoosePart Read(ByteSpan part, ByteSpan tables) {
  ByteReader in(tables);
  ByteReader behind(part.subspan(kPartHeaderBytes + HeaderField(part, kTablesBytesAt)));
  LoosePart loose;
  loose.header = Copy(part.first(kPartHeaderBytes));
  for (uint32_t i = HeaderField(part, kTensorCountAt); i > 0; --i) {
    ByteVector entry = BytesRead(tables, &in, [&] { SkipTensor(&in); });
    loose.tensors.push_back({std::move(entry), behind.Le<uint64_t>()});
  }
  for (uint32_t i = HeaderField(part, kModelCountAt); i > 0; --i) {
    loose.models.push_back(BytesRead(tables, &in, [&] { codec::Model::Read(&in); }));
  }
  const uint32_t chunk_count = HeaderField(part, kChunkCountAt);
  behind.Take(uint64_t{4} * chunk_count);
  for (uint32_t i = 0; i < chunk_count; ++i) {
    LoosePart::Chunk chunk = {in.Varint(), in.U8(), 0, {}};
    if (codec::IsSparse(static_cast<codec::Encoding>(chunk.encoding))) chunk.model = in.Varint();
    chunk.payload = Copy(behind.Take(in.Varint()));
    loose.chunks.push_back(std::move(chunk));
  }
  for (uint32_t i = HeaderField(part, kFileCountAt); i > 0; --i) {
    LoosePart::File file = {Copy(AsBytes(in.String(in.remaining()))), in.U8(), 0, {}, {}};
    if (file.kind != static_cast<uint8_t>(codec::FileKind::kRemoved)) {
      file.raw_bytes = in.Varint();
      file.payload = Copy(behind.Take(in.Varint()));
      file.sha256 = Sha256Digest::Copy(in.Take(32));
    }
    loose.files.push_back(std::move(file));
  }
  in.ExpectEnd();
  behind.ExpectEnd();
  return loose;
}

ByteVector Tables(const LoosePart& part) {
  ByteWriter out;
  for (const LoosePart::Tensor& tensor : part.tensors) out.Append(tensor.entry);
  for (const ByteVector& model : part.models) out.Append(model);
  for (const LoosePart::Chunk& chunk : part.chunks) {
    out.Varint(chunk.skipped);
    out.U8(chunk.encoding);
    if (codec::IsSparse(static_cast<codec::Encoding>(chunk.encoding))) out.Varint(chunk.model);
    out.Varint(chunk.payload.size());
  }
  for (const LoosePart::File& file : part.files) {
    out.String(AsText(file.path));
    out.U8(file.kind);
    if (file.kind == static_cast<uint8_t>(codec::FileKind::kRemoved)) continue;
    out.Varint(file.raw_bytes);
    out.Varint(file.payload.size());
    out.Append(file.sha256.span());
  }
  return out.Release();
}

ByteVector Checks(const LoosePart& part) {
  ByteWriter out;
  for (const LoosePart::Tensor& tensor : part.tensors) out.Le(tensor.sum_change);
  for (const LoosePart::Chunk& chunk : part.chunks) {
    out.Le(static_cast<uint32_t>(Xxh3_64(chunk.payload)));
  }
  return out.Release();
}

ByteVector Payloads(const LoosePart& part) {
  ByteVector out;
  for (const LoosePart::Chunk& chunk : part.chunks) Append(chunk.payload, &out);
  for (const LoosePart::File& file : part.files) {
    if (file.kind != static_cast<uint8_t>(codec::FileKind::kRemoved)) Append(file.payload, &out);
  }
  return out;
}

// A part of these pieces; sizes and digest in `header` are set.
ByteVector Join(ByteVector header, ByteSpan tables, ByteSpan checks, ByteSpan payloads) {
  ByteVector frame;
  codec::AppendFrame(tables, &frame);
  StoreLe(header.data() + kTablesBytesAt, static_cast<uint32_t>(frame.size()));
  StoreLe(header.data() + kTablesRawBytesAt, static_cast<uint32_t>(tables.size()));
  StoreLe(header.data() + kPayloadBytesAt, uint64_t{payloads.size()});
  const Xxh128Digest digest =
      codec::HeaderDigest(ByteSpan(header).first(codec::kDigestOffset), frame, checks);
  std::ranges::copy(digest.bytes, header.begin() + codec::kDigestOffset);
  Append(frame, &header);
  Append(checks, &header);
  Append(payloads, &header);
  return header;
}

}  // namespace

ByteVector LoosePart::Write() const {
  ByteVector start = header;
  const auto set_count = [&](size_t at, size_t count) {
    StoreLe(start.data() + at, static_cast<uint32_t>(count));
  };
  set_count(kTensorCountAt, tensors.size());
  set_count(kModelCountAt, models.size());
  set_count(kChunkCountAt, chunks.size());
  set_count(kFileCountAt, files.size());
  return Join(std::move(start), Tables(*this), Checks(*this), Payloads(*this));
}

std::optional<ByteVector> Unframe(ByteSpan frame, uint64_t most) {
  const unsigned long long declared = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (declared > most) return std::nullopt;  // errors are the largest values
  ByteVector content(declared);
  try {
    codec::ReadFrame(frame, content);
  } catch (const Error&) {
    return std::nullopt;
  }
  return content;
}

std::optional<ByteVector> TablesOf(ByteSpan part) {
  if (part.size() < kPartHeaderBytes) return std::nullopt;
  const uint32_t tables_bytes = HeaderField(part, kTablesBytesAt);
  if (tables_bytes > part.size() - kPartHeaderBytes) return std::nullopt;
  return Unframe(part.subspan(kPartHeaderBytes, tables_bytes), kMaxTables);
}

std::optional<ByteVector> WithTables(ByteSpan part, ByteSpan tables) {
  const uint64_t checks_at = kPartHeaderBytes + HeaderField(part, kTablesBytesAt);
  const uint64_t checks_bytes =
      codec::ChecksBytes(HeaderField(part, kTensorCountAt), HeaderField(part, kChunkCountAt));
  if (checks_bytes > part.size() - checks_at) return std::nullopt;
  return Join(Copy(part.first(kPartHeaderBytes)), tables, part.subspan(checks_at, checks_bytes),
              part.subspan(checks_at + checks_bytes));
}

std::optional<LoosePart> TakeApart(ByteSpan part) {
  const std::optional<ByteVector> tables = TablesOf(part);
  if (!tables) return std::nullopt;
  try {
    return Read(part, *tables);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace isthmus::fuzz
