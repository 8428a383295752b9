// How a directory keeps the promises of a Store.
//
// Writing an object:
//  1. Its directories are made and synced, so that a crash cannot lose the way to it.
//  2. The content goes to a temporary name in the same directory: the same file system, so that
//     step 4 is one atomic operation. The name begins with '.', which no key's segment does: what a
//     crash leaves behind is never an object, and List does not show it.
//  3. The temporary file is synced before it gets its name: after a crash a name never stands for
//     content that was lost.
//  4. Put and PutFile rename it: a reader sees the old or the new object. Create links it: link(2)
//     fails if the name is taken, where rename would replace the winner's object.
//  5. The directory is synced: the name is durable when the call returns.
// PutFile hashes the temporary file, not its source: the digest is of the bytes that were stored
// even if somebody writes the source meanwhile.
//
// Reading opens the file once and reads that inode: a rename meanwhile does not mix two contents.
// Delete does not sync: an object that comes back after a crash is deleted again.
#include "isthmus/store/dir_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"

namespace isthmus::store {
namespace {

// A hidden name beside `target`, removed unless it was renamed away.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target)
      : target_(target),
        path_(target.parent_path() /
              fmt::format(".{}.tmp-{}", target.filename().string(), RandomId())) {}
  ~TemporaryFile() {
    if (!renamed_) std::remove(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const fs::path& path() const { return path_; }

  void RenameToTarget() {
    if (std::rename(path_.c_str(), target_.c_str()) != 0) {
      ThrowErrno(errno, "replace", target_.string());
    }
    renamed_ = true;
    SyncDirectory(target_.parent_path());
  }

 private:
  fs::path target_;
  fs::path path_;
  bool renamed_ = false;
};

bool IsMissing(int error_number) { return error_number == ENOENT || error_number == ENOTDIR; }

// nullopt if there is no object. A directory is none: it only carries longer keys.
std::optional<uint64_t> SizeOf(const fs::path& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return std::nullopt;
    return static_cast<uint64_t>(info.st_size);
  }
  if (!IsMissing(errno)) ThrowErrno(errno, "stat", path.string());
  return std::nullopt;
}

std::optional<File> OpenObject(const fs::path& path) {
  if (!SizeOf(path)) return std::nullopt;
  try {
    return File::OpenRead(path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotFound) return std::nullopt;  // deleted since
    throw;
  }
}

[[noreturn]] void ThrowMissing(std::string_view action, const std::string& key,
                               const fs::path& root) {
  Throw(ErrorCode::kNotFound, "{} {}: no such object in {}", action, key, root.string());
}

std::string ReadRange(const File& file, uint64_t offset, uint64_t length) {
  std::string content(static_cast<size_t>(length), '\0');
  file.ReadAt(offset, {reinterpret_cast<std::byte*>(content.data()), content.size()});
  return content;
}

// Appends the keys of the files below `directory` whose names in it begin with `name_prefix`.
// `at` is the directory's key with a '/' behind it, or empty for the root.
void AppendKeys(const fs::path& directory, const std::string& at, std::string_view name_prefix,
                std::vector<std::string>* keys) {
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::string key = at + name;
    if (!name.starts_with(name_prefix) || !IsKey(key)) continue;
    std::error_code gone;  // deleted since: neither a directory nor a file
    if (entry->is_directory(gone)) {
      AppendKeys(entry->path(), key + "/", "", keys);
    } else if (entry->is_regular_file(gone)) {
      keys->push_back(key);
    }
  }
  if (error && !IsMissing(error.value())) ThrowErrno(error.value(), "list", directory.string());
}

}  // namespace

fs::path DirStore::PathOf(const std::string& key) const {
  CheckKey(key);
  return root_ / key;
}

fs::path DirStore::PathForWriting(const std::string& key) {
  fs::path path = PathOf(key);
  CreateDirectories(path.parent_path());
  SyncWayTo(path.parent_path());
  return path;
}

// A directory that was there may have been made by another process just now, and not be synced yet.
void DirStore::SyncWayTo(const fs::path& directory) {
  const std::lock_guard lock(mutex_);
  if (synced_.contains(directory)) return;
  for (fs::path at = directory; at != root_ && at.has_relative_path(); at = at.parent_path()) {
    SyncDirectory(at.parent_path());
  }
  synced_.insert(directory);
}

std::optional<std::string> DirStore::Get(const std::string& key, uint64_t max_bytes) {
  const std::optional<File> file = OpenObject(PathOf(key));
  if (!file) return std::nullopt;
  const uint64_t size = file->Size();
  if (size > max_bytes) {
    Throw(ErrorCode::kCorrupt, "read {}: {} bytes, at most {} allowed", file->path().string(), size,
          max_bytes);
  }
  return ReadRange(*file, 0, size);
}

std::string DirStore::GetRange(const std::string& key, uint64_t offset, uint64_t length) {
  const std::optional<File> file = OpenObject(PathOf(key));
  if (!file) ThrowMissing("read", key, root_);
  const uint64_t size = file->Size();
  uint64_t end = 0;
  if (!CheckedAdd(offset, length, &end) || end > size) {
    Throw(ErrorCode::kCorrupt, "read {}: {} bytes from byte {}, but the object ends at byte {}",
          file->path().string(), length, offset, size);
  }
  return ReadRange(*file, offset, length);
}

std::optional<uint64_t> DirStore::Size(const std::string& key) { return SizeOf(PathOf(key)); }

void DirStore::Fetch(const std::string& key, const fs::path& file, uint64_t max_bytes,
                     const TransferProgress& progress) {
  const fs::path path = PathOf(key);
  if (!SizeOf(path)) ThrowMissing("fetch", key, root_);
  CopyFile(path, file, /*sync=*/false, progress, max_bytes);
}

void DirStore::Put(const std::string& key, ByteSpan content) {
  WriteFileAtomic(PathForWriting(key), content);
}

FileDigest DirStore::PutFile(const std::string& key, const fs::path& file,
                             const TransferProgress& progress) {
  TemporaryFile temporary(PathForWriting(key));
  CopyFile(file, temporary.path(), /*sync=*/true, progress);
  const FileDigest digest = DigestFile(temporary.path());
  temporary.RenameToTarget();
  return digest;
}

bool DirStore::Create(const std::string& key, ByteSpan content) {
  return CreateFileIfAbsent(PathForWriting(key), content);
}

std::vector<std::string> DirStore::List(const std::string& prefix) {
  // Only the directory that the prefix ends in can hold matches, and only names that begin with
  // the rest: nothing else is read.
  const size_t name_at = prefix.rfind('/') + 1;  // npos + 1 == 0
  const std::string at = prefix.substr(0, name_at);
  if (!at.empty() && !IsKey(at.substr(0, at.size() - 1))) return {};
  std::vector<std::string> keys;
  AppendKeys(root_ / at, at, prefix.substr(name_at), &keys);
  std::ranges::sort(keys);
  return keys;
}

void DirStore::Delete(const std::string& key) {
  const fs::path path = PathOf(key);
  if (SizeOf(path)) RemoveFile(path);
}

}  // namespace isthmus::store
