#include "isthmus/replica/undo_log.h"

#include <cstring>

#include "isthmus/base/error.h"
#include "isthmus/base/mapped_file.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::replica {
namespace {

enum class RecordKind : uint8_t { kUnits = 1, kBytes = 2, kFile = 3, kNoFile = 4 };

constexpr size_t kFrameBytes = 4 + 8;
constexpr uint64_t kMaxFileNameBytes = 4096;
// A chunk of 4-byte units (docs/patch-format.md, section 1).
constexpr uint64_t kMaxRangeBytes = uint64_t{4} << 20;

ByteWriter StartRecord(RecordKind kind, const std::string& file) {
  ByteWriter body;
  body.U8(static_cast<uint8_t>(kind));
  body.String(file);
  return body;
}

// The next whole record's body; empty at the end or where a crash cut the log.
ByteSpan NextBody(ByteReader* log) {
  if (log->remaining() < kFrameBytes) return {};
  const auto size = log->Le<uint32_t>();
  const auto digest = log->Le<uint64_t>();
  if (size > log->remaining()) return {};
  const ByteSpan body = log->Take(size);
  return Xxh3_64(body) == digest ? body : ByteSpan();
}

void CheckRange(const File& file, uint64_t offset, uint64_t bytes) {
  const uint64_t size = file.Size();
  if (bytes <= size && offset <= size - bytes) return;
  Throw(ErrorCode::kCorrupt, "undo change of {}: {} bytes at {}, the file has {}",
        file.path().string(), bytes, offset, size);
}

void UndoBytes(ByteReader* body, const fs::path& path) {
  const File file = File::OpenReadWrite(path);
  const uint64_t offset = body->Varint();
  CheckRange(file, offset, body->remaining());
  file.WriteAt(offset, body->Take(body->remaining()));
}

void UndoUnits(ByteReader* body, const fs::path& path) {
  File file = File::OpenReadWrite(path);
  const uint64_t offset = body->Varint();
  const uint64_t range_bytes = body->Varint();
  const uint64_t unit_bytes = body->Varint();
  const uint64_t count = body->Varint();
  if ((unit_bytes != 1 && unit_bytes != 2 && unit_bytes != 4) || range_bytes > kMaxRangeBytes) {
    Throw(ErrorCode::kCorrupt, "undo change of {}: {} bytes in units of {}", path.string(),
          range_bytes, unit_bytes);
  }
  CheckRange(file, offset, range_bytes);
  ByteVector range(range_bytes);
  file.ReadAt(offset, range);
  uint64_t position = 0;
  for (uint64_t i = 0; i < count; ++i) {
    position += body->Varint();
    const ByteSpan old_unit = body->Take(unit_bytes);
    if (position >= range_bytes / unit_bytes) {
      Throw(ErrorCode::kCorrupt, "undo change of {}: unit {} of {}", path.string(), position,
            range_bytes / unit_bytes);
    }
    std::memcpy(range.data() + position * unit_bytes, old_unit.data(), unit_bytes);
    ++position;
  }
  file.WriteAt(offset, range);
}

void UndoFile(const fs::path& path, ByteSpan old_content) {
  // A file that the change never reached needs no room on what may be a full disk.
  if (Exists(path) && DigestFile(path).sha256 == Sha256(old_content)) return;
  CreateDirectories(path.parent_path());
  WriteFileAtomic(path, old_content);
}

void UndoRecord(ByteSpan bytes, const fs::path& directory) {
  ByteReader body(bytes);
  const auto kind = static_cast<RecordKind>(body.U8());
  const std::string name(body.String(kMaxFileNameBytes));
  if (!tensor::IsFilePath(name)) {
    Throw(ErrorCode::kCorrupt, "undo change: {:?} is not a file of a checkpoint", name);
  }
  const fs::path path = directory / name;
  switch (kind) {
    case RecordKind::kUnits:
      return UndoUnits(&body, path);
    case RecordKind::kBytes:
      return UndoBytes(&body, path);
    case RecordKind::kFile:
      return UndoFile(path, body.Take(body.remaining()));
    case RecordKind::kNoFile:
      return RemoveFileAndEmptyParents(directory, name);
  }
  Throw(ErrorCode::kCorrupt, "undo change: record of unknown kind {}", static_cast<int>(kind));
}

}  // namespace

void UndoLog::RecordUnits(const std::string& file, uint64_t offset, size_t unit_bytes,
                          ByteSpan range, std::span<const uint32_t> positions) {
  if (positions.size() * (unit_bytes + 1) >= range.size()) return RecordBytes(file, offset, range);
  ByteWriter body = StartRecord(RecordKind::kUnits, file);
  body.Varint(offset);
  body.Varint(range.size());
  body.Varint(unit_bytes);
  body.Varint(positions.size());
  uint64_t expected = 0;
  for (const uint32_t position : positions) {
    body.Varint(position - expected);
    body.Append(range.subspan(position * unit_bytes, unit_bytes));
    expected = uint64_t{position} + 1;
  }
  Append(body.bytes());
}

void UndoLog::RecordBytes(const std::string& file, uint64_t offset, ByteSpan old_bytes) {
  ByteWriter body = StartRecord(RecordKind::kBytes, file);
  body.Varint(offset);
  body.Append(old_bytes);
  Append(body.bytes());
}

void UndoLog::RecordFile(const std::string& file, const std::optional<std::string>& old_content) {
  ByteWriter body = StartRecord(old_content ? RecordKind::kFile : RecordKind::kNoFile, file);
  if (old_content) body.Append(AsBytes(*old_content));
  Append(body.bytes());
}

void UndoLog::Append(ByteSpan body) {
  ByteWriter frame;
  frame.Le(static_cast<uint32_t>(body.size()));
  frame.Le(Xxh3_64(body));
  frame.Append(body);
  const std::lock_guard lock(mutex_);
  // Behind a record that was cut short, replaying would not find another one.
  if (failed_) Throw(ErrorCode::kUnavailable, "write {}: failed before", file_.path().string());
  failed_ = true;
  file_.Write(frame.bytes());
  failed_ = false;
}

uint64_t UndoLog::Replay(const fs::path& path, const fs::path& directory) {
  if (!Exists(path)) return 0;
  const MappedFile map(path, Access::kRead);
  ByteReader log(map.bytes());
  uint64_t records = 0;
  for (ByteSpan body = NextBody(&log); !body.empty(); body = NextBody(&log)) {
    UndoRecord(body, directory);
    ++records;
  }
  map.CheckIntact();
  return records;
}

}  // namespace isthmus::replica
