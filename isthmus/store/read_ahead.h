// A store of which some objects are asked for before anybody needs them.
#ifndef ISTHMUS_STORE_READ_AHEAD_H_
#define ISTHMUS_STORE_READ_AHEAD_H_

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/store/store.h"

namespace isthmus::store {

// Asks for `keys` at once and all together when it is made: over a distance one round trip for all
// of them instead of one for each. What came is the answer to the first Get of a key, and to Size
// before that; so it may be as old as this object, which is for readers who look once, and soon.
// That an object is missing, or a failure, is said once. All else goes to the store.
class ReadAhead final : public Store {
 public:
  // An object of more than max_bytes is asked for again by whoever needs it.
  ReadAhead(std::unique_ptr<Store> store, const std::vector<std::string>& keys, uint64_t max_bytes);
  // Waits for what has been asked for.
  ~ReadAhead() override;

  std::string Describe() const override { return store_->Describe(); }
  std::optional<std::string> Get(const std::string& key, uint64_t max_bytes) override;
  std::string GetRange(const std::string& key, uint64_t offset, uint64_t length) override;
  std::optional<uint64_t> Size(const std::string& key) override;
  void Fetch(const std::string& key, const fs::path& file, uint64_t max_bytes,
             const TransferProgress& progress) override;
  void Put(const std::string& key, ByteSpan content) override;
  FileDigest PutFile(const std::string& key, const fs::path& file,
                     const TransferProgress& progress) override;
  bool Create(const std::string& key, ByteSpan content) override;
  std::vector<std::string> List(const std::string& prefix) override;
  void Delete(const std::string& key) override;

 private:
  using Answer = std::optional<std::string>;
  // Not valid if there is nothing of `key`.
  std::shared_future<Answer> Find(const std::string& key);
  void Forget(const std::string& key);

  std::unique_ptr<Store> store_;
  std::mutex mutex_;
  std::map<std::string, std::shared_future<Answer>> answers_;
};

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_READ_AHEAD_H_
