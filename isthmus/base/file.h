// Files: whole reads, durable writes, copies. All errors are isthmus::Error and name the path.
#ifndef ISTHMUS_BASE_FILE_H_
#define ISTHMUS_BASE_FILE_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "isthmus/base/bytes.h"
#include "isthmus/base/digest.h"

namespace isthmus {

namespace fs = std::filesystem;

// An open file descriptor, closed by the destructor. Movable; not thread-safe except for ReadAt.
class File {
 public:
  static File OpenRead(const fs::path& path);
  // Creates the file or empties an existing one.
  static File Create(const fs::path& path);
  // Creates the file; kConflict if the name is taken.
  static File CreateNew(const fs::path& path);
  // An existing file for reading and writing.
  static File OpenReadWrite(const fs::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  int fd() const { return fd_; }
  const fs::path& path() const { return path_; }
  uint64_t Size() const;
  // Appends at the file position. Throws kUnavailable on a full disk.
  void Write(ByteSpan bytes);
  // Fills `out` from `offset`; kCorrupt if the file ends before.
  void ReadAt(uint64_t offset, MutableByteSpan out) const;
  void WriteAt(uint64_t offset, ByteSpan bytes) const;
  // Data and size on stable storage.
  void Sync() const;

 private:
  File(int fd, fs::path path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  fs::path path_;
};

// The whole file. kNotFound if there is none, kCorrupt if it is larger than max_bytes.
std::string ReadFile(const fs::path& path, uint64_t max_bytes);

// Makes renames and new names in the directory durable.
void SyncDirectory(const fs::path& directory);

// A file that appears at `path` whole, replacing an older one, when Commit returns, and not at all
// without it: hidden temporary name in the same directory, write, fsync, rename, fsync of the
// directory.
class AtomicFile {
 public:
  explicit AtomicFile(const fs::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(ByteSpan bytes) { file_.Write(bytes); }
  void Commit();
  // As Commit, but false, and nothing changed, if the name is taken: link(2), which never replaces.
  bool CommitIfAbsent();

 private:
  fs::path path_;
  fs::path temporary_;
  File file_;
};

// Replaces or creates `path` so that a reader or a crash sees the old or the new content, never a
// mixture (AtomicFile).
void WriteFileAtomic(const fs::path& path, ByteSpan content);

// Creates `path` with `content`, durable when it returns true; false if the name was taken (its
// content is then untouched). Of concurrent callers exactly one gets true, and no reader ever sees
// partial content: link(2) of a complete, synced temporary file.
bool CreateFileIfAbsent(const fs::path& path, ByteSpan content);

// Copies a regular file to a new or replaced name; shares extents where the file system can
// (FICLONE), else copies inside the kernel. `sync` makes the content durable, not the name.
// Returns the bytes copied. `copied` (may be empty) is called with each step's bytes. kCorrupt if
// there are more than max_bytes: then `to` is not touched.
uint64_t CopyFile(const fs::path& from, const fs::path& to, bool sync,
                  const std::function<void(uint64_t)>& copied = {},
                  uint64_t max_bytes = std::numeric_limits<uint64_t>::max());

struct FileDigest {
  uint64_t bytes = 0;
  Sha256Digest sha256;
};
// SHA-256 of a file, read in pieces; `done` (may be empty) is called with each piece's bytes.
FileDigest DigestFile(const fs::path& path, const std::function<void(uint64_t)>& done = {});

// mkdir -p, durable: every directory that it creates is synced into its parent.
void CreateDirectories(const fs::path& directory);

// Whether the name stands for anything; a dangling link does not. Unlike std::filesystem::exists,
// failures are Errors.
bool Exists(const fs::path& path);

// Removes the file if it exists.
void RemoveFile(const fs::path& path);

// Removes root/file if it exists, and the directories between that this leaves empty.
void RemoveFileAndEmptyParents(const fs::path& root, const fs::path& file);

// Removes the directory and all in it, if it exists.
void RemoveTree(const fs::path& directory);

// An exclusive advisory lock (flock) on `path`, created if needed, held until destruction.
// kConflict, naming `what`, if another process holds it. Whoever holds it may remove the file.
class FileLock {
 public:
  FileLock(const fs::path& path, std::string_view what);
  // Unlocks also what forked children of this process hold open.
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  File file_;
};

}  // namespace isthmus

#endif  // ISTHMUS_BASE_FILE_H_
