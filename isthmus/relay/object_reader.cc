#include "isthmus/relay/object_reader.h"

#include <sys/uio.h>

#include <algorithm>

#include "isthmus/net/offload.h"

namespace isthmus::relay {
namespace {

// What can be read without waiting for the disk; 0 if nothing can.
size_t ReadCached(const File& file, uint64_t offset, MutableByteSpan out) {
  const iovec to = {out.data(), out.size()};
  const ssize_t count = ::preadv2(file.fd(), &to, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  return count > 0 ? static_cast<size_t>(count) : 0;
}

}  // namespace

ObjectReader::ObjectReader(ReadPlaces& places, std::string key, DiskCache::Found found)
    : places_(places),
      key_(std::move(key)),
      object_bytes_(found.bytes),
      file_(std::move(found.file)),
      pin_(std::move(found.pin)) {}

ObjectReader::ObjectReader(ReadPlaces& places, std::string key, std::shared_ptr<Flight> flight)
    : places_(places),
      key_(std::move(key)),
      object_bytes_(flight->object_bytes()),
      flight_(std::move(flight)) {}

ObjectReader::ObjectReader(ReadPlaces& places, std::string key, uint64_t object_bytes)
    : places_(places), key_(std::move(key)), object_bytes_(object_bytes) {}

ObjectReader::ObjectReader(ObjectReader&& other) noexcept
    : places_(other.places_),
      key_(std::move(other.key_)),
      object_bytes_(other.object_bytes_),
      file_(std::move(other.file_)),
      pin_(std::move(other.pin_)),
      flight_(std::move(other.flight_)),
      passes_(std::exchange(other.passes_, false)),
      buffer_(std::move(other.buffer_)) {}

ObjectReader::~ObjectReader() {
  if (passes_) --places_.passing;
}

net::Task<std::string_view> ObjectReader::Read(uint64_t offset, uint64_t max_bytes) {
  uint64_t there = object_bytes_ - offset;
  if (flight_) {
    there = co_await flight_->WaitFor(offset);
    file_ = there > 0 ? flight_->file() : nullptr;
  }
  const uint64_t bytes = std::min({there, max_bytes, uint64_t{kFileReadBytes}});
  if (file_) co_return co_await ReadFile(offset, static_cast<size_t>(bytes));
  co_return co_await Pass(offset, max_bytes);
}

// From memory at once; else on a thread, so that nobody else waits for the disk.
net::Task<std::string_view> ObjectReader::ReadFile(uint64_t offset, size_t bytes) {
  if (buffer_.size() < bytes) buffer_.resize(bytes);
  const MutableByteSpan out(reinterpret_cast<std::byte*>(buffer_.data()), bytes);
  const size_t cached = ReadCached(*file_, offset, out);
  if (cached > 0) co_return std::string_view(buffer_).substr(0, cached);
  // A buffer of its own: this reader may be gone before the disk answers.
  auto work = [file = file_, offset, bytes] {
    std::string content(bytes, '\0');
    file->ReadAt(offset, {reinterpret_cast<std::byte*>(content.data()), content.size()});
    return content;
  };
  buffer_ = co_await net::Offload(places_.disk, std::move(work));
  co_return std::string_view(buffer_);
}

net::Task<std::string_view> ObjectReader::Pass(uint64_t offset, uint64_t max_bytes) {
  if (!passes_) {
    if (places_.passing >= kMaxPassing) {
      Throw(ErrorCode::kUnavailable, "pass {} through: {} others are", key_, places_.passing);
    }
    passes_ = true;
    ++places_.passing;
    ++places_.passed;
  }
  buffer_ = co_await places_.origin.Range(key_, offset, std::min<uint64_t>(max_bytes, kPassBytes));
  co_return std::string_view(buffer_);
}

}  // namespace isthmus::relay
