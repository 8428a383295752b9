// Where tensors lie: memory to copy them into, and arrays of other libraries by DLPack.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "bind.h"
#include "call.h"
#include "isthmus/base/bytes.h"

namespace isthmus::python {
namespace {

namespace nb = nanobind;

// What one task copies: enough that starting it costs nothing, little enough that the last ones end
// together.
constexpr size_t kPieceBytes = size_t{4} << 20;

// Bytes to copy to `offset` of a HostMemory, from an address of this process.
using Span = std::tuple<size_t, uintptr_t, size_t>;

// Pages that live as long as the object, zero at first, and threads that copy into them. With
// `touch` they are there at once, because a copy that faults pages in takes twice as long; else
// each takes room when it is written.
class HostMemory {
 public:
  HostMemory(size_t bytes, size_t threads, bool touch) : size_(bytes), pool_(threads) {
    if (bytes == 0) return;
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) ThrowErrno(errno, "allocate", fmt::format("{} bytes", bytes));
    data_ = static_cast<std::byte*>(at);
    ::madvise(at, bytes, MADV_HUGEPAGE);  // only faster
    if (touch) Touch();
  }
  ~HostMemory() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  uintptr_t address() const { return reinterpret_cast<uintptr_t>(data_); }
  size_t size() const { return size_; }

  void Copy(const std::vector<Span>& spans) {
    ForPieces(spans, [](std::byte* to, const std::byte* from, size_t bytes, size_t /*span*/) {
      std::memcpy(to, from, bytes);
    });
  }

  // The first span whose source is not what lies here; -1: all are.
  int64_t FindDifference(const std::vector<Span>& spans) {
    std::atomic<size_t> first = spans.size();
    ForPieces(spans, [&first](std::byte* to, const std::byte* from, size_t bytes, size_t span) {
      if (std::memcmp(to, from, bytes) == 0) return;
      size_t seen = first;
      while (span < seen && !first.compare_exchange_weak(seen, span)) {
      }
    });
    return first == spans.size() ? -1 : static_cast<int64_t>(first.load());
  }

 private:
  struct Piece {
    size_t offset;
    uintptr_t source;
    size_t bytes;
    size_t span;
  };

  void Touch() {
    const size_t pieces = (size_ + kPieceBytes - 1) / kPieceBytes;
    pool_.ParallelFor(pieces, [this](size_t i) {
      const size_t begin = i * kPieceBytes;
      std::memset(data_ + begin, 0, std::min(kPieceBytes, size_ - begin));
    });
  }

  void CheckFits(size_t offset, size_t bytes) const {
    if (offset <= size_ && bytes <= size_ - offset) return;
    Throw(ErrorCode::kInternal, "copy {} bytes to {} of a buffer of {}", bytes, offset, size_);
  }

  std::vector<Piece> PiecesOf(const std::vector<Span>& spans) const {
    std::vector<Piece> pieces;
    for (size_t i = 0; i < spans.size(); ++i) {
      const auto& [offset, source, bytes] = spans[i];
      CheckFits(offset, bytes);
      for (size_t done = 0; done < bytes; done += kPieceBytes) {
        pieces.push_back({offset + done, source + done, std::min(kPieceBytes, bytes - done), i});
      }
    }
    return pieces;
  }

  template <typename Task>
  void ForPieces(const std::vector<Span>& spans, const Task& task) {
    const std::vector<Piece> pieces = PiecesOf(spans);
    pool_.ParallelFor(pieces.size(), [&](size_t i) {
      const Piece& piece = pieces[i];
      // NOLINTNEXTLINE(performance-no-int-to-ptr): Python knows addresses as numbers
      const auto* from = reinterpret_cast<const std::byte*>(piece.source);
      task(data_ + piece.offset, from, piece.bytes, piece.span);
    });
  }

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  ThreadPool pool_;
};

// Python's HostMemory.
class PyHostMemory {
 public:
  PyHostMemory(size_t bytes, size_t threads, bool touch)
      : memory_(std::make_unique<HostMemory>(bytes, threads, touch)) {}

  HostMemory& Get() const { return memory_.Get(); }
  void Copy(const std::vector<Span>& spans) const {
    HostMemory& memory = Get();
    const nb::gil_scoped_release release;
    memory.Copy(spans);
  }
  int64_t FindDifference(const std::vector<Span>& spans) const {
    HostMemory& memory = Get();
    const nb::gil_scoped_release release;
    return memory.FindDifference(spans);
  }
  nb::object View(size_t offset, size_t bytes) const {
    HostMemory& memory = Get();
    if (offset > memory.size() || bytes > memory.size() - offset) {
      Throw(ErrorCode::kInternal, "look at {} bytes at {} of a buffer of {}", bytes, offset,
            memory.size());
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as above
    auto* at = reinterpret_cast<char*>(memory.address() + offset);
    return nb::steal(PyMemoryView_FromMemory(at, static_cast<Py_ssize_t>(bytes), PyBUF_WRITE));
  }

 private:
  Owned<HostMemory> memory_;
};

std::unique_ptr<PyHostMemory> NewHostMemory(size_t bytes, size_t threads, bool touch) {
  const nb::gil_scoped_release release;
  return std::make_unique<PyHostMemory>(bytes, threads, touch);
}

// An array that another library lends by DLPack (or the buffer protocol), kept alive. Nothing is
// copied.
class DlpackView {
 public:
  explicit DlpackView(nb::ndarray<nb::ro> array) : array_(std::move(array)) {}

  uintptr_t address() const { return reinterpret_cast<uintptr_t>(array_.data()); }
  bool on_cpu() const { return array_.device_type() == nb::device::cpu::value; }
  uint8_t type_code() const { return array_.dtype().code; }
  unsigned bits() const { return unsigned{array_.dtype().bits} * array_.dtype().lanes; }

  std::vector<size_t> shape() const {
    std::vector<size_t> shape;
    for (size_t i = 0; i < array_.ndim(); ++i) shape.push_back(array_.shape(i));
    return shape;
  }

  // Row-major without gaps; strides of dimensions with one element or none do not matter.
  bool contiguous() const {
    int64_t expected = 1;
    for (size_t i = array_.ndim(); i-- > 0;) {
      const auto size = static_cast<int64_t>(array_.shape(i));
      if (size == 0) return true;
      if (size > 1 && array_.stride(i) != expected) return false;
      expected *= size;
    }
    return true;
  }

 private:
  nb::ndarray<nb::ro> array_;
};

}  // namespace

void BindMemory(nb::module_& module) {
  nb::class_<PyHostMemory>(module, "HostMemory", "Memory that tensors are copied into.")
      .def(nb::new_(&NewHostMemory), nb::arg("bytes"), nb::arg("threads"), nb::arg("touch"))
      .def_prop_ro("address", [](const PyHostMemory& self) { return self.Get().address(); })
      .def_prop_ro("size", [](const PyHostMemory& self) { return self.Get().size(); })
      .def("copy", &PyHostMemory::Copy, nb::arg("spans"),
           "Copies (offset here, address, bytes) on all threads, without the GIL.")
      .def("find_difference", &PyHostMemory::FindDifference, nb::arg("spans"),
           "The index of the first span whose source differs from what lies here; -1 if none.")
      .def("view", &PyHostMemory::View, nb::arg("offset"), nb::arg("bytes"),
           "A writable memoryview, valid while this object lives.");
  nb::class_<DlpackView>(module, "DlpackView", "An array of another library, kept alive.")
      .def(nb::init<nb::ndarray<nb::ro>>(), nb::arg("array"))
      .def_prop_ro("address", &DlpackView::address)
      .def_prop_ro("on_cpu", &DlpackView::on_cpu)
      .def_prop_ro("type_code", &DlpackView::type_code, "DLDataTypeCode.")
      .def_prop_ro("bits", &DlpackView::bits, "Of one element.")
      .def_prop_ro("shape", &DlpackView::shape)
      .def_prop_ro("contiguous", &DlpackView::contiguous);
}

}  // namespace isthmus::python
