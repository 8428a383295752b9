// Memory that ends the program where it is read or written beyond its bytes.
#ifndef ISTHMUS_TESTS_SUPPORT_GUARDED_BYTES_H_
#define ISTHMUS_TESTS_SUPPORT_GUARDED_BYTES_H_

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "isthmus/base/bytes.h"
#include "isthmus/base/error.h"

namespace isthmus::testing {

// Bytes with an unreadable page right before or right behind them.
class GuardedBytes {
 public:
  enum class Guard { kBefore, kBehind };

  GuardedBytes(size_t size, Guard guard) {
    const size_t room = (size + kPage - 1) / kPage * kPage;
    mapped_ = room + 2 * kPage;
    void* pages =
        ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) ThrowErrno(errno, "map", "memory");
    pages_ = static_cast<std::byte*>(pages);
    ::mprotect(pages_, kPage, PROT_NONE);
    ::mprotect(pages_ + kPage + room, kPage, PROT_NONE);
    span_ = {pages_ + kPage + (guard == Guard::kBefore ? 0 : room - size), size};
  }
  GuardedBytes(ByteSpan content, Guard guard) : GuardedBytes(content.size(), guard) {
    Set(content);
  }
  ~GuardedBytes() { ::munmap(pages_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  MutableByteSpan span() const { return span_; }
  // `content` has the size of the bytes.
  void Set(ByteSpan content) const { std::memcpy(span_.data(), content.data(), content.size()); }

 private:
  static constexpr size_t kPage = 4096;
  std::byte* pages_ = nullptr;
  size_t mapped_ = 0;
  MutableByteSpan span_;
};

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_GUARDED_BYTES_H_
