#include "isthmus/relay/cache_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>

#include "isthmus/base/error.h"
#include "isthmus/store/store.h"

namespace isthmus::relay {
namespace {

constexpr std::string_view kMagic = "isthmus relay 1\n";
constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kChecksumBytes = 16;
constexpr uint64_t kFixedBytes = 4 + 8 + kChecksumBytes + 16;
constexpr uint64_t kMaxKeyBytes = 1024;  // docs/board.md

size_t PiecesOf(uint64_t bytes) {
  return static_cast<size_t>(bytes / kPieceBytes + (bytes % kPieceBytes > 0 ? 1 : 0));
}

Xxh128Digest ChecksumOf(const std::vector<Xxh128Digest>& pieces, ByteSpan tail) {
  Xxh128Stream stream;
  for (const Xxh128Digest& piece : pieces) stream.Update(piece.span());
  stream.Update(tail);
  return stream.Finish();
}

// The tail before its checksum.
ByteVector TailOf(const std::string& key, uint64_t object_bytes) {
  ByteWriter tail;
  tail.Append(AsBytes(key));
  tail.Le(static_cast<uint32_t>(key.size()));
  tail.Le(object_bytes);
  return tail.Release();
}

}  // namespace

uint64_t CacheFileBytes(const std::string& key, uint64_t object_bytes) {
  uint64_t bytes = 0;
  if (!CheckedAdd(object_bytes, key.size() + kFixedBytes + kBlockBytes - 1, &bytes)) {
    return std::numeric_limits<uint64_t>::max();
  }
  return bytes / kBlockBytes * kBlockBytes;
}

CacheFileWriter::CacheFileWriter(fs::path temporary, std::string key, uint64_t object_bytes)
    : temporary_(std::move(temporary)), key_(std::move(key)), object_bytes_(object_bytes) {}

CacheFileWriter::~CacheFileWriter() {
  if (file_ && !temporary_.empty()) std::remove(temporary_.c_str());
}

void CacheFileWriter::Create() {
  file_ = std::make_shared<File>(File::CreateNew(temporary_));
  const auto bytes = static_cast<off_t>(object_bytes_ + key_.size() + kFixedBytes);
  if (::fallocate(file_->fd(), 0, 0, bytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
    ThrowErrno(errno, "take room for", temporary_.string());
  }
  digests_.resize(pieces());
}

size_t CacheFileWriter::pieces() const { return PiecesOf(object_bytes_); }

uint64_t CacheFileWriter::piece_bytes(size_t piece) const {
  return std::min(kPieceBytes, object_bytes_ - piece * kPieceBytes);
}

void CacheFileWriter::Write(size_t piece, ByteSpan bytes) {
  file_->WriteAt(piece * kPieceBytes, bytes);
  digests_.at(piece) = Xxh3_128(bytes);
}

void CacheFileWriter::Seal(const fs::path& path) {
  ByteWriter tail;
  tail.Append(TailOf(key_, object_bytes_));
  tail.Append(ChecksumOf(digests_, tail.bytes()).span());
  tail.Append(AsBytes(kMagic));
  file_->WriteAt(object_bytes_, tail.bytes());
  if (std::rename(temporary_.c_str(), path.c_str()) != 0) {
    ThrowErrno(errno, "name", path.string());
  }
  temporary_.clear();
}

std::optional<CacheFileTail> ReadCacheFileTail(const File& file) {
  const uint64_t size = file.Size();
  if (size < kFixedBytes) return std::nullopt;
  ByteVector fixed(kFixedBytes);
  file.ReadAt(size - kFixedBytes, fixed);
  ByteReader reader(fixed);
  const uint64_t key_bytes = reader.Le<uint32_t>();
  CacheFileTail tail;
  tail.object_bytes = reader.Le<uint64_t>();
  if (AsText(reader.Take(kChecksumBytes + kMagic.size()).subspan(kChecksumBytes)) != kMagic ||
      key_bytes > kMaxKeyBytes || key_bytes > size - kFixedBytes ||
      tail.object_bytes != size - kFixedBytes - key_bytes) {
    return std::nullopt;
  }
  tail.key.resize(key_bytes);
  file.ReadAt(tail.object_bytes, {reinterpret_cast<std::byte*>(tail.key.data()), tail.key.size()});
  if (!store::IsKey(tail.key)) return std::nullopt;
  return tail;
}

bool CacheFileIsSound(const File& file) {
  const std::optional<CacheFileTail> tail = ReadCacheFileTail(file);
  if (!tail) return false;
  std::vector<Xxh128Digest> digests(PiecesOf(tail->object_bytes));
  ByteVector buffer(static_cast<size_t>(std::min(kPieceBytes, tail->object_bytes)));
  for (size_t piece = 0; piece < digests.size(); ++piece) {
    const uint64_t begin = piece * kPieceBytes;
    const auto bytes = MutableByteSpan(buffer).first(
        static_cast<size_t>(std::min(kPieceBytes, tail->object_bytes - begin)));
    file.ReadAt(begin, bytes);
    digests[piece] = Xxh3_128(bytes);
  }
  const ByteVector text = TailOf(tail->key, tail->object_bytes);
  Xxh128Digest written;
  file.ReadAt(tail->object_bytes + text.size(), written.bytes);
  return ChecksumOf(digests, text) == written;
}

}  // namespace isthmus::relay
