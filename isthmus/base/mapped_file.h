// Files in memory, with page faults that turn into errors.
#ifndef ISTHMUS_BASE_MAPPED_FILE_H_
#define ISTHMUS_BASE_MAPPED_FILE_H_

#include <memory>

#include "isthmus/base/bytes.h"
#include "isthmus/base/file.h"

namespace isthmus {

enum class Access { kRead, kReadWrite };

// A whole file mapped shared. A file that shrinks, or a disk that fails, under a mapping raises
// SIGBUS; here the touched page is replaced by zeros, the mapping is marked failed, and CheckIntact
// throws. So whoever reads a mapping calls CheckIntact before trusting what was read, and whoever
// writes one calls it before reporting success. The signal handler is installed by the first
// mapping; faults outside of mappings go to whatever handled SIGBUS before.
// Distinct threads may read and write distinct bytes.
class MappedFile {
 public:
  MappedFile(const fs::path& path, Access access);
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  ~MappedFile();

  ByteSpan bytes() const;
  // Only for Access::kReadWrite.
  MutableByteSpan writable() const;
  // Writes by system call, coherent with the mapping: for whole ranges faster than through it (no
  // page fault a page), and a full disk is an Error. Only for Access::kReadWrite; thread-safe.
  void WriteAt(uint64_t offset, ByteSpan bytes) const;
  // What was written through the mapping or by WriteAt is on stable storage.
  void Sync() const;
  const fs::path& path() const;
  // Throws, naming the file, if a page of the mapping was lost: kCorrupt if the file is shorter
  // now, else kUnavailable: its disk is full (holes) or failed.
  void CheckIntact() const;

 private:
  struct Region;
  std::unique_ptr<Region> region_;
};

}  // namespace isthmus

#endif  // ISTHMUS_BASE_MAPPED_FILE_H_
