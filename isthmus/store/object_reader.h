// Reading objects over HTTP: whole, in ranges, and large ones in several ranges at a time.
#ifndef ISTHMUS_STORE_OBJECT_READER_H_
#define ISTHMUS_STORE_OBJECT_READER_H_

#include <atomic>
#include <optional>
#include <string>

#include "isthmus/store/object_server.h"
#include "isthmus/store/store.h"

namespace isthmus::store {

// The reading half of a Store, with its promises. The server must outlive it. Thread-safe.
//
// Nothing that a server says is believed beyond what it is checked against: every range is compared
// with what was asked for before a byte of it is written, and memory is taken for what arrives, not
// for what is announced. Servers that do not know ranges and answer with the whole object are fine.
class ObjectReader {
 public:
  explicit ObjectReader(ObjectServer& server) : server_(server) {}

  std::optional<std::string> Get(const std::string& key, uint64_t max_bytes);
  std::string GetRange(const std::string& key, uint64_t offset, uint64_t length);
  std::optional<uint64_t> Size(const std::string& key);

  // See object_fetch.h: a failure leaves the file that was there. What a server announces or sends
  // above max_bytes is refused before a byte of it is written.
  void Fetch(const std::string& key, const fs::path& file, uint64_t max_bytes,
             const TransferProgress& progress);

 private:
  // What `read` gives; its errors name action, key and server.
  template <typename Action>
  auto Named(std::string_view action, const std::string& key, const Action& read)
      -> decltype(read());
  std::optional<uint64_t> SizeOf(const std::string& key);
  uint64_t ExistingSize(const std::string& key);

  ObjectServer& server_;
  std::atomic<bool> knows_no_ranges_ = false;
};

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_OBJECT_READER_H_
