// One cached object in one file. All of this blocks.
//
// A file has the object's bytes, so that byte N of the file is byte N of the object, and then a
// tail:
//
//   key                  its bytes
//   u32 key bytes, u64 object bytes
//   16 bytes             checksum: XXH3-128 over the XXH3-128 of each piece (kPieceBytes, the last
//   one
//                        shorter) and the tail up to here
//   16 bytes             "isthmus relay 1\n"
//
// It is written under a temporary name and renamed when it is complete, without syncing it: what a
// killed process renamed is whole, and what a power loss made of it does not fit its checksum.
#ifndef ISTHMUS_RELAY_CACHE_FILE_H_
#define ISTHMUS_RELAY_CACHE_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/file.h"

namespace isthmus::relay {

// What is fetched, written and hashed at a time.
inline constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

// How much a file takes on the disk, in whole blocks of 4 KiB.
uint64_t CacheFileBytes(const std::string& key, uint64_t object_bytes);

// A file that is being written; removed by the destructor unless it was sealed.
class CacheFileWriter {
 public:
  CacheFileWriter(fs::path temporary, std::string key, uint64_t object_bytes);
  ~CacheFileWriter();
  CacheFileWriter(const CacheFileWriter&) = delete;
  CacheFileWriter& operator=(const CacheFileWriter&) = delete;

  // Takes the room on the disk, where the file system can: kUnavailable if there is none.
  void Create();

  size_t pieces() const;
  uint64_t piece_bytes(size_t piece) const;
  // Each piece once; several threads may write pieces at a time. kUnavailable on a full disk.
  void Write(size_t piece, ByteSpan bytes);
  // What was written can be read from here. Valid after Create, also when the file has a new name.
  std::shared_ptr<const File> file() const { return file_; }

  // When all pieces are there: the tail, then the name.
  void Seal(const fs::path& path);

 private:
  fs::path temporary_;
  std::string key_;
  uint64_t object_bytes_;
  std::vector<Xxh128Digest> digests_;
  std::shared_ptr<File> file_;
};

// What a file's tail says.
struct CacheFileTail {
  std::string key;
  uint64_t object_bytes = 0;
};
// nullopt unless the tail is well formed and the file as long as it says. The checksum is not
// looked at.
std::optional<CacheFileTail> ReadCacheFileTail(const File& file);

// Reads the whole file: whether it is what was written.
bool CacheFileIsSound(const File& file);

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_CACHE_FILE_H_
