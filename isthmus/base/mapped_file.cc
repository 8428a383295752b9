// How a lost page becomes an error:
//   1. Every live mapping has a slot in a fixed table that the signal handler can read without
//   locks.
//   2. The handler looks the faulting address up. In a mapping: it marks the slot failed and maps
//      anonymous zero pages over the rest of the mapping from the faulting page on, so that the
//      interrupted instruction succeeds (mmap is a plain system call on Linux).
//   3. Elsewhere: it restores the previous action and returns; the fault repeats and meets that.
#include "isthmus/base/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <utility>

#include "isthmus/base/error.h"

namespace isthmus {
namespace {

// More mappings than shards of any published checkpoint (DeepSeek-V3 has 163 shards); a process
// maps two checkpoints and some patch parts.
constexpr size_t kMaxMappings = 8192;

struct Slot {
  std::atomic<bool> used = false;
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
  std::atomic<bool> failed = false;
};

std::array<Slot, kMaxMappings> slots;
struct sigaction previous_action;
std::atomic<uintptr_t> page_bytes = 4096;

void HandleSigbus(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Slot& slot : slots) {
    const uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    const uintptr_t end = slot.end.load(std::memory_order_acquire);
    if (address < begin || address >= end) continue;
    slot.failed.store(true, std::memory_order_release);
    const uintptr_t page = address & ~(page_bytes.load(std::memory_order_relaxed) - 1);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the address comes from the kernel as a number.
    if (::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
      errno = saved_errno;
      return;
    }
  }
  ::sigaction(SIGBUS, &previous_action, nullptr);
  errno = saved_errno;
}

void InstallHandlerOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = HandleSigbus;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &previous_action);
  });
}

Slot& TakeSlot(const fs::path& path) {
  for (Slot& slot : slots) {
    bool expected = false;
    if (slot.used.compare_exchange_strong(expected, true)) return slot;
  }
  Throw(ErrorCode::kUnavailable, "map {}: {} files are mapped, no more allowed", path.string(),
        kMaxMappings);
}

}  // namespace

struct MappedFile::Region {
  fs::path path;
  std::byte* begin = nullptr;
  size_t size = 0;
  bool writable = false;
  std::optional<File> for_writing;
  Slot* slot = nullptr;

  ~Region() {
    if (slot == nullptr) return;
    slot->begin = 0;
    slot->end = 0;
    ::munmap(begin, size);
    slot->failed = false;
    slot->used = false;
  }

  void Map(const File& file, Access access) {
    const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
    void* address = ::mmap(nullptr, size, protection, MAP_SHARED, file.fd(), 0);
    if (address == MAP_FAILED) ThrowErrno(errno, "map", path.string());
    begin = static_cast<std::byte*>(address);
    slot = &TakeSlot(path);
    slot->begin = reinterpret_cast<uintptr_t>(begin);
    slot->end = reinterpret_cast<uintptr_t>(begin) + size;
  }
};

MappedFile::MappedFile(const fs::path& path, Access access) : region_(std::make_unique<Region>()) {
  InstallHandlerOnce();
  File file = access == Access::kRead ? File::OpenRead(path) : File::OpenReadWrite(path);
  region_->path = path;
  region_->size = static_cast<size_t>(file.Size());
  region_->writable = access == Access::kReadWrite;
  if (region_->size > 0) region_->Map(file, access);
  if (region_->writable) region_->for_writing = std::move(file);
}

MappedFile::MappedFile(MappedFile&&) noexcept = default;
MappedFile& MappedFile::operator=(MappedFile&&) noexcept = default;
MappedFile::~MappedFile() = default;

ByteSpan MappedFile::bytes() const { return {region_->begin, region_->size}; }

MutableByteSpan MappedFile::writable() const {
  if (!region_->writable) {
    Throw(ErrorCode::kInternal, "write {}: mapped for reading", region_->path.string());
  }
  return {region_->begin, region_->size};
}

void MappedFile::WriteAt(uint64_t offset, ByteSpan bytes) const {
  const MutableByteSpan target = writable();
  if (offset > target.size() || bytes.size() > target.size() - offset) {
    Throw(ErrorCode::kInternal, "write {}: bytes {} to {} of {}", region_->path.string(), offset,
          offset + bytes.size(), target.size());
  }
  region_->for_writing->WriteAt(offset, bytes);
}

void MappedFile::Sync() const {
  if (region_->for_writing) region_->for_writing->Sync();
}

const fs::path& MappedFile::path() const { return region_->path; }

void MappedFile::CheckIntact() const {
  if (region_->slot == nullptr || !region_->slot->failed.load(std::memory_order_acquire)) return;
  std::error_code error;
  const uint64_t bytes = fs::file_size(region_->path, error);
  if (error || bytes < region_->size) {
    Throw(ErrorCode::kCorrupt, "read {}: the file became shorter than the {} bytes mapped",
          region_->path.string(), region_->size);
  }
  Throw(ErrorCode::kUnavailable, "use {} in memory: its disk is full or failed",
        region_->path.string());
}

}  // namespace isthmus
