#include "isthmus/gateway/segment.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"
#include "isthmus/gateway/rollout.h"

namespace isthmus::gateway {
namespace {

constexpr size_t kDateBytes = 10;
constexpr size_t kMaxInstanceBytes = 64;
// What one look at a stored line costs, against how well lines compress together.
constexpr size_t kFrameBytes = size_t{1} << 20;
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr uint64_t kIdsMagic = 0x3130'7364'6974'7369;  // "istids01"

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

// Calls visit(offset, lines) with whole lines, each time with as many as a frame should hold, or
// with one longer line. What stands behind the last line end is left out.
template <typename Visit>
uint64_t VisitLines(const File& file, const Visit& visit) {
  const uint64_t size = file.Size();
  std::string held;
  uint64_t begin = 0;  // of `held` in the file
  for (uint64_t at = 0; at < size;) {
    const size_t count = static_cast<size_t>(std::min<uint64_t>(kReadBytes, size - at));
    const size_t before = held.size();
    held.resize(before + count);
    file.ReadAt(at, std::as_writable_bytes(std::span(held).subspan(before)));
    at += count;
    // Only new bytes are looked at: a long line is not gone through again and again.
    const size_t found = std::string_view(held).substr(before).rfind('\n');
    if (found == std::string_view::npos) continue;
    const size_t end = before + found + 1;
    if (end < kFrameBytes && at < size) continue;
    visit(begin, std::string_view(held).substr(0, end));
    held.erase(0, end);
    begin += end;
  }
  const size_t last = held.rfind('\n');
  if (last == std::string::npos) return begin;
  visit(begin, std::string_view(held).substr(0, last + 1));
  return begin + last + 1;
}

void FindLines(uint64_t begin, std::string_view lines, std::vector<LinePlace>* out) {
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at);
    const std::string_view line = lines.substr(at, end - at);
    if (const std::string_view id = IdOfLine(line); !id.empty()) {
      out->push_back({HashOfId(id), begin + at, line.size()});
    }
    at = end + 1;
  }
}

size_t CheckZstd(size_t result, std::string_view action) {
  if (ZSTD_isError(result) != 0) {
    Throw(ErrorCode::kInternal, "{}: {}", action, ZSTD_getErrorName(result));
  }
  return result;
}

class Compressor {
 public:
  explicit Compressor(int level) : context_(ZSTD_createCCtx()) {
    if (!context_) Throw(ErrorCode::kUnavailable, "compress rollouts: no memory");
    CheckZstd(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level), "set level");
    CheckZstd(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1), "set checksum");
  }

  // Appends a frame.
  void Add(std::string_view lines, std::string* out) {
    const size_t before = out->size();
    const size_t bound = ZSTD_compressBound(lines.size());
    out->resize(before + bound);
    const size_t size =
        ZSTD_compress2(context_.get(), out->data() + before, bound, lines.data(), lines.size());
    out->resize(before + CheckZstd(size, "compress rollouts"));
  }

 private:
  std::unique_ptr<ZSTD_CCtx, FreeContext> context_;
};

std::string Compress(const File& file, int level, SegmentObject* object) {
  Compressor compressor(level);
  std::string content;
  object->line_bytes = VisitLines(file, [&](uint64_t begin, std::string_view lines) {
    object->frames.push_back({begin, content.size()});
    FindLines(begin, lines, &object->lines);
    compressor.Add(lines, &content);
  });
  object->object_bytes = content.size();
  return content;
}

bool HoldsAlready(store::Store& store, const std::string& key, const std::string& content) {
  try {
    return store.Get(key, content.size()) == content;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt) throw;  // else it is larger
    return false;
  }
}

std::optional<std::string> IfOfId(std::string line, std::string_view id) {
  if (IdOfLine(line) != id) return std::nullopt;
  return line;
}

}  // namespace

std::string SegmentStem(WallTime time, std::string_view instance, uint64_t sequence) {
  return fmt::format("{}.{}-{:08}", FormatTime(time).substr(0, kDateBytes), instance, sequence);
}

bool IsInstance(std::string_view instance) {
  return instance.size() <= kMaxInstanceBytes && store::IsKey(instance) &&
         instance.find('/') == std::string_view::npos;
}

bool IsSegmentStem(std::string_view stem) {
  return stem.size() > kDateBytes + 1 && stem[kDateBytes] == '.' &&
         stem.find('/') == std::string_view::npos && store::IsKey(SegmentKey(stem));
}

std::string SegmentKey(std::string_view stem) {
  return fmt::format("rollouts/{}/{}{}.zst", stem.substr(0, kDateBytes),
                     stem.substr(kDateBytes + 1), kSegmentSuffix);
}

uint64_t HashOfId(std::string_view id) { return Xxh3_64(AsBytes(id)); }

ScannedSegment RecoverSegment(const fs::path& path) {
  const File file = File::OpenReadWrite(path);
  ScannedSegment scanned;
  scanned.bytes = VisitLines(file, [&](uint64_t begin, std::string_view lines) {
    FindLines(begin, lines, &scanned.lines);
  });
  if (scanned.bytes < file.Size() &&
      ::ftruncate(file.fd(), static_cast<off_t>(scanned.bytes)) != 0) {
    ThrowErrno(errno, "cut", path.string());
  }
  return scanned;
}

SegmentObject UploadSegment(store::Store& store, const fs::path& path, std::string_view stem,
                            int zstd_level) {
  const File file = File::OpenRead(path);
  file.Sync();
  SegmentObject object;
  object.key = SegmentKey(stem);
  const std::string content = Compress(file, zstd_level, &object);
  if (store.Create(object.key, AsBytes(content))) return object;
  if (HoldsAlready(store, object.key, content)) return object;
  object.key = SegmentKey(fmt::format("{}-{}", stem, RandomId()));
  if (store.Create(object.key, AsBytes(content))) return object;
  Throw(ErrorCode::kConflict, "create {} in {}: an object of this name is there", object.key,
        store.Describe());
}

std::optional<std::string> ReadSpooledLine(const fs::path& path, const LinePlace& place,
                                           std::string_view id) {
  std::string line(place.bytes, '\0');
  try {
    const File file = File::OpenRead(path);
    file.ReadAt(place.offset, std::as_writable_bytes(std::span(line)));
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;
    return std::nullopt;
  }
  return IfOfId(std::move(line), id);
}

std::optional<std::string> ReadStoredLine(store::Store& store, const SegmentObject& object,
                                          const LinePlace& place, std::string_view id) {
  const auto next = std::ranges::upper_bound(object.frames, place.offset, {}, &Frame::begin);
  if (next == object.frames.begin()) return std::nullopt;
  const Frame& frame = *std::prev(next);
  const bool last = next == object.frames.end();
  const uint64_t frame_bytes = (last ? object.object_bytes : next->at) - frame.at;
  std::string lines((last ? object.line_bytes : next->begin) - frame.begin, '\0');
  if (place.offset - frame.begin + place.bytes > lines.size()) return std::nullopt;
  std::string packed;
  try {
    packed = store.GetRange(object.key, frame.at, frame_bytes);
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;
    return std::nullopt;
  }
  const size_t size = ZSTD_decompress(lines.data(), lines.size(), packed.data(), packed.size());
  if (ZSTD_isError(size) != 0 || size != lines.size()) return std::nullopt;
  return IfOfId(lines.substr(place.offset - frame.begin, place.bytes), id);
}

void WriteIds(const fs::path& file, const SegmentObject& object) {
  ByteWriter writer;
  writer.Le(kIdsMagic);
  writer.String(object.key);
  writer.Varint(object.line_bytes);
  writer.Varint(object.object_bytes);
  writer.Varint(object.frames.size());
  for (const Frame& frame : object.frames) {
    writer.Varint(frame.begin);
    writer.Varint(frame.at);
  }
  writer.Varint(object.lines.size());
  for (const LinePlace& line : object.lines) {
    writer.Le(line.id_hash);
    writer.Varint(line.offset);
    writer.Varint(line.bytes);
  }
  writer.Le(Xxh3_64(writer.bytes()));
  WriteFileAtomic(file, writer.bytes());
}

// The digest makes sure that the numbers are those that were written.
SegmentObject ReadIds(const fs::path& file, uint64_t max_bytes) {
  const std::string text = ReadFile(file, max_bytes);
  constexpr size_t kDigestBytes = sizeof(uint64_t);
  const size_t size = std::max(text.size(), kDigestBytes) - kDigestBytes;
  ByteReader digest(AsBytes(std::string_view(text).substr(size)));
  if (digest.Le<uint64_t>() != Xxh3_64(AsBytes(std::string_view(text).substr(0, size)))) {
    Throw(ErrorCode::kCorrupt, "read {}: the digest does not fit", file.string());
  }
  ByteReader reader(AsBytes(std::string_view(text).substr(0, size)));
  if (reader.Le<uint64_t>() != kIdsMagic) {
    Throw(ErrorCode::kCorrupt, "read {}: it is no list of ids", file.string());
  }
  SegmentObject object;
  object.key = reader.String(text.size());
  object.line_bytes = reader.Varint();
  object.object_bytes = reader.Varint();
  for (uint64_t left = reader.Varint(); left > 0; --left) {
    const uint64_t begin = reader.Varint();
    object.frames.push_back({begin, reader.Varint()});
  }
  for (uint64_t left = reader.Varint(); left > 0; --left) {
    LinePlace& line = object.lines.emplace_back();
    line.id_hash = reader.Le<uint64_t>();
    line.offset = reader.Varint();
    line.bytes = reader.Varint();
  }
  reader.ExpectEnd();
  return object;
}

}  // namespace isthmus::gateway
