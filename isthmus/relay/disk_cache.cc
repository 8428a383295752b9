#include "isthmus/relay/disk_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"

namespace isthmus::relay {
namespace {

constexpr char kObjects[] = "objects";
constexpr char kUnfinished[] = "unfinished";
constexpr char kBoard[] = "board";
constexpr uint64_t kMaxBoardBytes = 1024;

fs::path LockPath(const fs::path& directory) {
  CreateDirectories(directory);
  return directory / "lock";
}

std::string ReadBoard(const fs::path& file) {
  return Exists(file) ? ReadFile(file, kMaxBoardBytes) : std::string();
}

// When it was last written, in nanoseconds.
int64_t WrittenAt(const File& file) {
  struct stat info;
  if (::fstat(file.fd(), &info) != 0) ThrowErrno(errno, "look at", file.path().string());
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// A file that cannot be removed takes room that is not accounted for; nothing else depends on it.
void TryRemove(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

}  // namespace

Deposit::Deposit(std::shared_ptr<DiskCache> cache, std::string key, uint64_t object_bytes,
                 std::vector<fs::path> evicted)
    : cache_(std::move(cache)),
      key_(std::move(key)),
      object_bytes_(object_bytes),
      reserved_bytes_(CacheFileBytes(key_, object_bytes)),
      evicted_(std::move(evicted)),
      path_(cache_->NewPath(kObjects)),
      writer_(cache_->NewPath(kUnfinished), key_, object_bytes) {}

Deposit::~Deposit() {
  for (const fs::path& path : evicted_) TryRemove(path);
  cache_->index_.Release(reserved_bytes_);
}

void Deposit::Begin() {
  for (const fs::path& path : evicted_) TryRemove(path);
  evicted_.clear();
  writer_.Create();
}

DiskCache::DiskCache(fs::path directory, uint64_t limit_bytes)
    : directory_(std::move(directory)),
      limit_(limit_bytes),
      lock_(LockPath(directory_), "cache " + directory_.string()),
      board_(ReadBoard(directory_ / kBoard)),
      index_(limit_bytes) {
  RemoveTree(directory_ / kUnfinished);
  CreateDirectories(directory_ / kUnfinished);
  CreateDirectories(directory_ / kObjects);
  ReadAll();
}

// From the oldest on, so that of two files with one object the newer one stays, and the oldest are
// evicted if the limit has become smaller.
void DiskCache::ReadAll() {
  std::multimap<int64_t, std::pair<fs::path, CacheFileTail>> found;
  for (const auto& entry : fs::directory_iterator(directory_ / kObjects)) {
    const File file = File::OpenRead(entry.path());
    if (auto tail = ReadCacheFileTail(file)) {
      found.emplace(WrittenAt(file), std::pair(entry.path(), std::move(*tail)));
    } else {
      TryRemove(entry.path());
    }
  }
  for (const auto& [time, object] : found) {
    const auto& [path, tail] = object;
    Drop(tail.key);
    const uint64_t bytes = CacheFileBytes(tail.key, tail.object_bytes);
    std::vector<std::string> evicted;
    if (!index_.Reserve(bytes, &evicted)) {
      TryRemove(path);
      continue;
    }
    for (const std::string& key : evicted) Drop(key);
    index_.Commit(tail.key, bytes);
    objects_[tail.key] = {path, tail.object_bytes, false};
  }
}

void DiskCache::BelongTo(const std::string& board) {
  if (board == board_) return;
  // First what would be wrong under the new name.
  for (const std::string& key : index_.names()) Drop(key);
  WriteFileAtomic(directory_ / kBoard, AsBytes(board));
  board_ = board;
}

fs::path DiskCache::NewPath(const char* folder) const { return directory_ / folder / RandomId(); }

// What the cache may take now: its limit, or what it has and is free, if that is less.
uint64_t DiskCache::RoomBytes() const {
  std::error_code error;
  const fs::space_info disk = fs::space(directory_, error);
  if (error) return limit_;
  return std::min(limit_, index_.used_bytes() + disk.available);
}

std::optional<DiskCache::Found> DiskCache::Find(const std::string& key) {
  const auto at = objects_.find(key);
  if (at == objects_.end()) return std::nullopt;
  Found found;
  try {
    found.file = std::make_shared<const File>(File::OpenRead(at->second.path));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    Drop(key);  // somebody removed it
    return std::nullopt;
  }
  found.bytes = at->second.bytes;
  found.proven = at->second.proven;
  found.pin = Pin(key);
  return found;
}

std::shared_ptr<void> DiskCache::Pin(const std::string& key) {
  index_.Pin(key);
  return {nullptr, [self = shared_from_this(), key](void*) { self->index_.Unpin(key); }};
}

void DiskCache::SetProven(const std::string& key) {
  const auto at = objects_.find(key);
  if (at != objects_.end()) at->second.proven = true;
}

void DiskCache::Drop(const std::string& key) {
  index_.Remove(key);
  const auto at = objects_.find(key);
  if (at == objects_.end()) return;
  TryRemove(at->second.path);
  objects_.erase(at);
}

void DiskCache::DropUnproven(const std::string& key) {
  const auto at = objects_.find(key);
  if (at != objects_.end() && !at->second.proven) Drop(key);
}

std::shared_ptr<Deposit> DiskCache::Reserve(const std::string& key, uint64_t object_bytes) {
  index_.set_limit(RoomBytes());
  std::vector<std::string> evicted;
  if (!index_.Reserve(CacheFileBytes(key, object_bytes), &evicted)) return nullptr;
  std::vector<fs::path> paths;
  for (const std::string& name : evicted) {
    const auto at = objects_.find(name);
    paths.push_back(std::move(at->second.path));
    objects_.erase(at);
  }
  return std::make_shared<Deposit>(shared_from_this(), key, object_bytes, std::move(paths));
}

void DiskCache::Keep(Deposit& deposit) {
  Drop(deposit.key_);
  index_.Commit(deposit.key_, deposit.reserved_bytes_);
  objects_[deposit.key_] = {deposit.path_, deposit.object_bytes_, true};
  deposit.reserved_bytes_ = 0;
  deposit.pin_ = Pin(deposit.key_);
}

}  // namespace isthmus::relay
