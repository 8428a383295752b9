// Objects on a local disk, within a bound, over restarts.
#ifndef ISTHMUS_RELAY_DISK_CACHE_H_
#define ISTHMUS_RELAY_DISK_CACHE_H_

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "isthmus/relay/cache_file.h"
#include "isthmus/relay/cache_index.h"

namespace isthmus::relay {

class DiskCache;

// Room in a cache for one object, and the file that it is written to. Given back by the destructor
// unless DiskCache::Keep took it. Made and destroyed on the cache's thread.
class Deposit {
 public:
  Deposit(std::shared_ptr<DiskCache> cache, std::string key, uint64_t object_bytes,
          std::vector<fs::path> evicted);
  ~Deposit();
  Deposit(const Deposit&) = delete;
  Deposit& operator=(const Deposit&) = delete;

  // These block, and may run on another thread, one of them at a time. Begin removes what had to go
  // and takes the room on the disk; Seal makes the file complete. kUnavailable: the disk is full.
  void Begin();
  void Seal() { writer_.Seal(path_); }
  CacheFileWriter& writer() { return writer_; }

 private:
  friend class DiskCache;

  std::shared_ptr<DiskCache> cache_;
  std::string key_;
  uint64_t object_bytes_;
  uint64_t reserved_bytes_;
  std::vector<fs::path> evicted_;
  fs::path path_;
  CacheFileWriter writer_;
  std::shared_ptr<void> pin_;
};

// Used on one thread. `directory` holds "lock" (one process at a time), "board" (the uuid that the
// objects belong to), "objects" and "unfinished".
class DiskCache : public std::enable_shared_from_this<DiskCache> {
 public:
  // Opens or makes it; blocks. What an earlier process left unfinished or unsound is removed, as is
  // the oldest if there is more than the limit. kConflict if another process uses it.
  DiskCache(fs::path directory, uint64_t limit_bytes);

  // The board that the objects are of; empty if that was never said.
  const std::string& board() const { return board_; }
  // Says it; blocks. If it was another's, all objects are removed.
  void BelongTo(const std::string& board);

  struct Found {
    uint64_t bytes = 0;
    std::shared_ptr<const File> file;  // stays readable whatever becomes of the entry
    std::shared_ptr<void> pin;         // keeps the entry's room taken; freed on the cache's thread
    // Whether the file was written, or its checksum looked at, by this process: if not, that is
    // to be done (CacheFileIsSound) before a byte of it is used.
    bool proven = false;
  };
  std::optional<Found> Find(const std::string& key);
  void SetProven(const std::string& key);
  // Forgets the object and removes its file.
  void Drop(const std::string& key);
  // The same, unless it was replaced or proven meanwhile.
  void DropUnproven(const std::string& key);

  // Null if there is no room, within the limit or on the disk: what others have taken of it is not
  // ours, so the cache goes on within what is left.
  std::shared_ptr<Deposit> Reserve(const std::string& key, uint64_t object_bytes);
  // After Seal: from now on the object is found, and stays while the deposit lives.
  void Keep(Deposit& deposit);

  const CacheIndex& index() const { return index_; }

 private:
  friend class Deposit;

  struct Object {
    fs::path path;
    uint64_t bytes = 0;
    bool proven = false;
  };

  fs::path NewPath(const char* folder) const;
  uint64_t RoomBytes() const;
  void ReadAll();
  std::shared_ptr<void> Pin(const std::string& key);

  fs::path directory_;
  uint64_t limit_;
  FileLock lock_;
  std::string board_;
  CacheIndex index_;
  std::unordered_map<std::string, Object> objects_;
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_DISK_CACHE_H_
