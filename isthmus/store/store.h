// Where objects live: the port that a board stands on.
#ifndef ISTHMUS_STORE_STORE_H_
#define ISTHMUS_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/digest.h"
#include "isthmus/base/file.h"

namespace isthmus::store {

// Called with the bytes of each step of a long transfer. May be empty.
using TransferProgress = std::function<void(uint64_t)>;

// A flat space of immutable or replaceable objects named by keys: segments of [A-Za-z0-9._-] and
// '/' between them, no segment empty or beginning with '.', at most 1024 bytes; other keys are
// kInvalid. Every implementation passes store_conformance (tests/conformance/store.h) and is
// thread-safe.
//
// Durable means: a power loss right after the call returned does not lose it.
// "Missing" is nullopt where the return type says so, else kNotFound. A store that cannot be
// reached or is full throws kUnavailable; then the object either exists whole or not at all.
class Store {
 public:
  virtual ~Store() = default;

  // For messages, for example a directory path or "s3://bucket/prefix".
  virtual std::string Describe() const = 0;

  // The whole object, kCorrupt if it is larger than max_bytes.
  virtual std::optional<std::string> Get(const std::string& key, uint64_t max_bytes) = 0;
  // `length` bytes from `offset`; kCorrupt if the object ends before.
  virtual std::string GetRange(const std::string& key, uint64_t offset, uint64_t length) = 0;
  virtual std::optional<uint64_t> Size(const std::string& key) = 0;
  // Copies the object into a new or replaced local file. Not durable there.
  virtual void Fetch(const std::string& key, const fs::path& file,
                     const TransferProgress& progress = {}) = 0;

  // Creates or replaces, atomically for readers, durable on return.
  virtual void Put(const std::string& key, ByteSpan content) = 0;
  // As Put, with the content of a local file. Returns the size and SHA-256 of what was stored.
  virtual FileDigest PutFile(const std::string& key, const fs::path& file,
                             const TransferProgress& progress = {}) = 0;
  // Creates, durable on return; false if the key exists. Of concurrent callers exactly one gets
  // true, and every reader sees that one's content whole.
  virtual bool Create(const std::string& key, ByteSpan content) = 0;

  // The keys that begin with `prefix` (any prefix, not only whole segments), sorted.
  virtual std::vector<std::string> List(const std::string& prefix) = 0;
  // Removes the object if it exists.
  virtual void Delete(const std::string& key) = 0;
};

// Whether `key` follows the rules above, and the same as a check: kInvalid unless it does.
bool IsKey(std::string_view key);
void CheckKey(std::string_view key);

// The store that a BOARD argument names: a directory path (or file://PATH). kInvalid for schemes
// that this program does not know.
std::unique_ptr<Store> OpenStore(const std::string& location);

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_STORE_H_
