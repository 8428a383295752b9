#include "isthmus/base/file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"

namespace isthmus {
namespace {

constexpr size_t kCopyStepBytes = size_t{16} << 20;
constexpr size_t kDigestStepBytes = size_t{1} << 20;

int OpenFd(const fs::path& path, int flags, std::string_view action) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  if (fd >= 0) return fd;
  if (errno == EEXIST) Throw(ErrorCode::kConflict, "{} {}: the name exists", action, path.string());
  ThrowErrno(errno, action, path.string());
}

// The name of a temporary file beside `path`: hidden, so that no listing takes it for content.
fs::path TemporaryName(const fs::path& path) {
  return path.parent_path() / ("." + path.filename().string() + ".tmp-" + RandomId());
}

fs::path ParentOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

bool CopyStep(const File& from, const File& to, uint64_t* copied) {
  const ssize_t count = ::copy_file_range(from.fd(), nullptr, to.fd(), nullptr, kCopyStepBytes, 0);
  if (count < 0) return false;
  *copied = static_cast<uint64_t>(count);
  return true;
}

// Where the kernel cannot copy between two file systems: read and write.
void CopyRest(const File& from, File& to, uint64_t offset, uint64_t size,
              const std::function<void(uint64_t)>& copied) {
  ByteVector buffer(kDigestStepBytes);
  while (offset < size) {
    const size_t step = static_cast<size_t>(std::min<uint64_t>(buffer.size(), size - offset));
    from.ReadAt(offset, MutableByteSpan(buffer).first(step));
    to.Write(ByteSpan(buffer).first(step));
    offset += step;
    if (copied) copied(step);
  }
}

File OpenLockFile(const fs::path& path) {
  // Without truncation: the content does not matter, the file may be in use.
  if (!Exists(path)) {
    try {
      return File::CreateNew(path);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kConflict) throw;  // else: created meanwhile
    }
  }
  return File::OpenReadWrite(path);
}

// Whether the open file is the one that the name stands for now.
bool IsFileAt(const fs::path& path, const File& file) {
  struct stat named;
  struct stat open;
  if (::fstat(file.fd(), &open) != 0) ThrowErrno(errno, "stat", path.string());
  return ::stat(path.c_str(), &named) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

}  // namespace

File File::OpenRead(const fs::path& path) { return {OpenFd(path, O_RDONLY, "open"), path}; }
File File::Create(const fs::path& path) {
  return {OpenFd(path, O_RDWR | O_CREAT | O_TRUNC, "create"), path};
}
File File::CreateNew(const fs::path& path) {
  return {OpenFd(path, O_RDWR | O_CREAT | O_EXCL, "create"), path};
}
File File::OpenReadWrite(const fs::path& path) {
  return {OpenFd(path, O_RDWR, "open for writing"), path};
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

uint64_t File::Size() const {
  struct stat info;
  if (::fstat(fd_, &info) != 0) ThrowErrno(errno, "stat", path_.string());
  if (!S_ISREG(info.st_mode)) {
    Throw(ErrorCode::kInvalid, "open {}: not a regular file", path_.string());
  }
  return static_cast<uint64_t>(info.st_size);
}

void File::Write(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) ThrowErrno(errno, "write", path_.string());
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void File::ReadAt(uint64_t offset, MutableByteSpan out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) ThrowErrno(errno, "read", path_.string());
    if (count == 0) {
      Throw(ErrorCode::kCorrupt, "read {}: ends at byte {}, {} more expected", path_.string(),
            offset, out.size());
    }
    offset += static_cast<uint64_t>(count);
    out = out.subspan(static_cast<size_t>(count));
  }
}

void File::WriteAt(uint64_t offset, ByteSpan bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) ThrowErrno(errno, "write", path_.string());
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void File::Sync() const {
  if (::fdatasync(fd_) != 0) ThrowErrno(errno, "sync", path_.string());
}

std::string ReadFile(const fs::path& path, uint64_t max_bytes) {
  const File file = File::OpenRead(path);
  const uint64_t size = file.Size();
  if (size > max_bytes) {
    Throw(ErrorCode::kCorrupt, "read {}: {} bytes, at most {} allowed", path.string(), size,
          max_bytes);
  }
  std::string content(static_cast<size_t>(size), '\0');
  file.ReadAt(0, {reinterpret_cast<std::byte*>(content.data()), content.size()});
  return content;
}

void SyncDirectory(const fs::path& directory) {
  const int fd = OpenFd(directory, O_RDONLY | O_DIRECTORY, "open directory");
  const int result = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  if (result != 0) ThrowErrno(error_number, "sync directory", directory.string());
}

AtomicFile::AtomicFile(const fs::path& path)
    : path_(path), temporary_(TemporaryName(path)), file_([this] {
        try {
          return File::CreateNew(temporary_);
        } catch (const Error& error) {  // the user knows the file by its own name
          throw error.Annotated("write " + path_.string());
        }
      }()) {}

AtomicFile::~AtomicFile() { ::unlink(temporary_.c_str()); }

void AtomicFile::Commit() {
  file_.Sync();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    ThrowErrno(errno, "replace", path_.string());
  SyncDirectory(ParentOf(path_));
}

bool AtomicFile::CommitIfAbsent() {
  file_.Sync();
  if (::link(temporary_.c_str(), path_.c_str()) != 0) {
    if (errno == EEXIST) return false;
    ThrowErrno(errno, "create", path_.string());
  }
  SyncDirectory(ParentOf(path_));
  return true;
}

void WriteFileAtomic(const fs::path& path, ByteSpan content) {
  AtomicFile file(path);
  file.Write(content);
  file.Commit();
}

bool CreateFileIfAbsent(const fs::path& path, ByteSpan content) {
  AtomicFile file(path);
  file.Write(content);
  return file.CommitIfAbsent();
}

uint64_t CopyFile(const fs::path& from, const fs::path& to, bool sync,
                  const std::function<void(uint64_t)>& copied, uint64_t max_bytes) {
  const File source = File::OpenRead(from);
  const uint64_t size = source.Size();
  if (size > max_bytes) {
    Throw(ErrorCode::kCorrupt, "copy {} to {}: {} bytes, at most {} allowed", from.string(),
          to.string(), size, max_bytes);
  }
  if (IsFileAt(to, source)) {
    Throw(ErrorCode::kInvalid, "copy {} to {}: the same file", from.string(), to.string());
  }
  File target = File::Create(to);
  if (::ioctl(target.fd(), FICLONE, source.fd()) == 0) {
    if (copied) copied(size);
  } else {
    uint64_t done = 0;
    uint64_t step = 0;
    while (done < size && CopyStep(source, target, &step) && step > 0) {
      done += step;
      if (copied) copied(step);
    }
    CopyRest(source, target, done, size, copied);
  }
  if (sync) target.Sync();
  return size;
}

FileDigest DigestFile(const fs::path& path, const std::function<void(uint64_t)>& done) {
  const File file = File::OpenRead(path);
  FileDigest result;
  result.bytes = file.Size();
  Sha256Stream stream;
  ByteVector buffer(static_cast<size_t>(std::min<uint64_t>(kDigestStepBytes, result.bytes)));
  for (uint64_t offset = 0; offset < result.bytes;) {
    const size_t step =
        static_cast<size_t>(std::min<uint64_t>(buffer.size(), result.bytes - offset));
    file.ReadAt(offset, MutableByteSpan(buffer).first(step));
    stream.Update(ByteSpan(buffer).first(step));
    offset += step;
    if (done) done(step);
  }
  result.sha256 = stream.Finish();
  return result;
}

void CreateDirectories(const fs::path& directory) {
  std::vector<fs::path> missing;
  for (fs::path at = fs::absolute(directory).lexically_normal(); !Exists(at);
       at = at.parent_path()) {
    missing.push_back(at);
  }
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    if (at->filename().empty()) continue;  // a trailing slash
    if (::mkdir(at->c_str(), 0755) != 0 && errno != EEXIST) {
      ThrowErrno(errno, "create directory", at->string());
    }
    SyncDirectory(ParentOf(*at));
  }
}

bool Exists(const fs::path& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) ThrowErrno(errno, "look at", path.string());
  return false;
}

void RemoveFile(const fs::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) ThrowErrno(errno, "remove", path.string());
}

void RemoveFileAndEmptyParents(const fs::path& root, const fs::path& file) {
  RemoveFile(root / file);
  std::error_code not_empty;
  for (fs::path at = file.parent_path(); !at.empty(); at = at.parent_path()) {
    if (!fs::remove(root / at, not_empty)) return;
  }
}

void RemoveTree(const fs::path& directory) {
  std::error_code error;
  fs::remove_all(directory, error);
  if (error) ThrowErrno(error.value(), "remove", directory.string());
}

FileLock::FileLock(const fs::path& path, std::string_view what) : file_(OpenLockFile(path)) {
  while (true) {
    if (::flock(file_.fd(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) ThrowErrno(errno, "lock", path.string());
      Throw(ErrorCode::kConflict, "lock {}: another process is using it", what);
    }
    // Whoever held the lock before may have removed the file: then this lock is on a lost name.
    if (IsFileAt(path, file_)) return;
    file_ = OpenLockFile(path);
  }
}

FileLock::~FileLock() { ::flock(file_.fd(), LOCK_UN); }

}  // namespace isthmus
