// Reads one object from wherever its bytes are: the cache, its flight, or the origin.
#ifndef ISTHMUS_RELAY_OBJECT_READER_H_
#define ISTHMUS_RELAY_OBJECT_READER_H_

#include <memory>
#include <string>
#include <string_view>

#include "isthmus/relay/flight.h"

namespace isthmus::relay {

// Where a reader can get bytes from, and how many read from the origin at a time.
struct ReadPlaces {
  Origin& origin;
  net::asio::thread_pool& disk;
  size_t passing = 0;   // readers that hold bytes of the origin in memory
  uint64_t passed = 0;  // objects passed through so far
};

// Used on its loop's thread by one request, which must not outlive `places`.
class ObjectReader {
 public:
  // Most that Read gives at a time.
  static constexpr size_t kFileReadBytes = 256 << 10;
  static constexpr size_t kPassBytes = 1 << 20;
  // Readers at a time that pass bytes of the origin on; more are kUnavailable.
  static constexpr size_t kMaxPassing = 256;

  // From the cache.
  ObjectReader(ReadPlaces& places, std::string key, DiskCache::Found found);
  // While it is being fetched.
  ObjectReader(ReadPlaces& places, std::string key, std::shared_ptr<Flight> flight);
  // From the origin only.
  ObjectReader(ReadPlaces& places, std::string key, uint64_t object_bytes);
  ObjectReader(ObjectReader&& other) noexcept;
  ObjectReader& operator=(ObjectReader&&) = delete;
  ~ObjectReader();

  uint64_t object_bytes() const { return object_bytes_; }

  // Some bytes from `offset` on, at least one and at most `max_bytes`; the range must lie in the
  // object. The view lives until the next call. kUnavailable, kCorrupt, kNotFound.
  net::Task<std::string_view> Read(uint64_t offset, uint64_t max_bytes);

 private:
  net::Task<std::string_view> ReadFile(uint64_t offset, size_t bytes);
  net::Task<std::string_view> Pass(uint64_t offset, uint64_t max_bytes);

  ReadPlaces& places_;
  std::string key_;
  uint64_t object_bytes_;
  std::shared_ptr<const File> file_;
  std::shared_ptr<void> pin_;
  std::shared_ptr<Flight> flight_;
  bool passes_ = false;
  std::string buffer_;
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_OBJECT_READER_H_
