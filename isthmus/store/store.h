// Where objects live: the port that a board stands on.
#ifndef ISTHMUS_STORE_STORE_H_
#define ISTHMUS_STORE_STORE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
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
  // Copies the object into a new or replaced local file. Not durable there. kCorrupt if it is
  // larger than max_bytes, whatever its server says of its size: then no more than these are ever
  // written, and `file` is what it was before.
  virtual void Fetch(const std::string& key, const fs::path& file, uint64_t max_bytes,
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

// How to reach a store over a network. Directories need none of it.
struct StoreOptions {
  // S3: "http(s)://HOST[:PORT]". Empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's
  // endpoint_url, else Amazon's for the region.
  std::string s3_endpoint;
  // S3. Empty: AWS_REGION, AWS_DEFAULT_REGION, the profile's, else us-east-1.
  std::string s3_region;
  // S3: the bucket as part of the host's name (true) or of the path (false). nullopt: of the path
  // at an endpoint that was named, of the host's name at Amazon.
  std::optional<bool> s3_virtual_host;
  // PEM file of the authorities to trust. Empty: AWS_CA_BUNDLE (S3), else the system's.
  std::string ca_file;
  // HTTP: file with the bearer token to show; read again when the server refuses it.
  std::string token_file;
  // Within it an operation's retries end. A transfer gets one more second for each 256 KiB.
  std::chrono::milliseconds deadline{120'000};
  // A connection that gives or takes less than 1 KiB/s for so long is given up, in whole seconds.
  std::chrono::milliseconds stall{30'000};
  // Once a stop is requested, what waits for its next try or for bytes is given up within about a
  // second, and so is all that begins later: kUnavailable.
  std::stop_token stop = {};
};

// The store that a BOARD argument names: a directory path (or file:///PATH), s3://BUCKET[/PREFIX]
// (s3_store.h), http(s)://HOST[:PORT][/PATH] (http_store.h). kInvalid for other schemes. Does not
// speak to a server yet.
std::unique_ptr<Store> OpenStore(const std::string& location, const StoreOptions& options = {});

// Throws kInvalid unless Create keeps its promise for a key that exists: creates a probe object
// twice, and deletes it again. A server that ignores the condition of a write would let two
// publishers commit one version.
void CheckCreateIsConditional(Store& store);

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_STORE_H_
