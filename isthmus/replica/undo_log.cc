#include "isthmus/replica/undo_log.h"

#include <algorithm>
#include <cstring>

#include "isthmus/base/error.h"
#include "isthmus/base/mapped_file.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::replica {
namespace {

enum class RecordKind : uint8_t { kUnits = 1, kBytes = 2, kFile = 3, kNoFile = 4 };

constexpr size_t kFrameBytes = 4 + 8;
constexpr size_t kPlaceBytes = 2;  // of a unit in a run, see UndoRun
constexpr uint64_t kMaxFileNameBytes = 4096;
// A chunk of 4-byte units (docs/patch-format.md, section 1).
constexpr uint64_t kMaxRangeBytes = uint64_t{4} << 20;

ByteWriter StartRecord(RecordKind kind, const std::string& file) {
  ByteWriter body;
  body.U8(static_cast<uint8_t>(kind));
  body.String(file);
  return body;
}

// Reads as UndoRun does.
void AppendRun(std::span<const codec::OldUnit> changes, uint64_t first, size_t unit_bytes,
               ByteWriter* body) {
  body->Varint((changes.front().position - first) >> 16);
  body->Varint(changes.size());
  std::byte* place = body->Extend(changes.size() * (kPlaceBytes + unit_bytes)).data();
  std::byte* unit = place + changes.size() * kPlaceBytes;
  for (const codec::OldUnit& old : changes) {
    StoreLe(place, static_cast<uint16_t>(old.position - first));
    std::memcpy(unit, &old.bits, unit_bytes);
    place += kPlaceBytes;
    unit += unit_bytes;
  }
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

// Units whose positions differ in the lowest 16 bits only: these bits of all, then all units.
void UndoRun(ByteReader* body, const fs::path& path, uint64_t unit_bytes, MutableByteSpan range) {
  const uint64_t high = body->Varint();
  const uint64_t count = body->Varint();
  if (high > range.size() >> 16 || count > range.size()) {
    Throw(ErrorCode::kCorrupt, "undo change of {}: {} units from {} * 2^16, the range has {}",
          path.string(), count, high, range.size() / unit_bytes);
  }
  const ByteSpan low = body->Take(count * kPlaceBytes);
  const ByteSpan units = body->Take(count * unit_bytes);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t position = high << 16 | LoadLe<uint16_t>(low.data() + i * kPlaceBytes);
    if (position >= range.size() / unit_bytes) {
      Throw(ErrorCode::kCorrupt, "undo change of {}: unit {} of {}", path.string(), position,
            range.size() / unit_bytes);
    }
    std::memcpy(range.data() + position * unit_bytes, units.data() + i * unit_bytes, unit_bytes);
  }
}

void UndoUnits(ByteReader* body, const fs::path& path) {
  File file = File::OpenReadWrite(path);
  const uint64_t offset = body->Varint();
  const uint64_t range_bytes = body->Varint();
  const uint64_t unit_bytes = body->Varint();
  if ((unit_bytes != 1 && unit_bytes != 2 && unit_bytes != 4) || range_bytes > kMaxRangeBytes) {
    Throw(ErrorCode::kCorrupt, "undo change of {}: {} bytes in units of {}", path.string(),
          range_bytes, unit_bytes);
  }
  CheckRange(file, offset, range_bytes);
  ByteVector range(range_bytes);
  file.ReadAt(offset, range);
  while (body->remaining() > 0) UndoRun(body, path, unit_bytes, range);
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
                          ByteSpan range, std::span<const codec::OldUnit> changes, uint64_t first) {
  if (changes.size() * (unit_bytes + kPlaceBytes) >= range.size()) {
    ByteVector old_range(range.begin(), range.end());
    codec::PutBack(changes, unit_bytes, first, old_range);
    return RecordBytes(file, offset, old_range);
  }
  ByteWriter body = StartRecord(RecordKind::kUnits, file);
  body.Varint(offset);
  body.Varint(range.size());
  body.Varint(unit_bytes);
  while (!changes.empty()) {
    const uint64_t high = (changes.front().position - first) >> 16;
    const auto end = std::ranges::find_if(
        changes, [&](const codec::OldUnit& old) { return (old.position - first) >> 16 != high; });
    const auto count = static_cast<size_t>(end - changes.begin());
    AppendRun(changes.first(count), first, unit_bytes, &body);
    changes = changes.subspan(count);
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
