// A store that lets a test act between two calls of the code under test.
#ifndef ISTHMUS_TESTS_SUPPORT_HOOKED_STORE_H_
#define ISTHMUS_TESTS_SUPPORT_HOOKED_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/store/store.h"

namespace isthmus::testing {

// Passes everything on. After the first call that puts, creates or deletes `key`, `hook` runs once.
class HookedStore final : public store::Store {
 public:
  HookedStore(std::unique_ptr<Store> store, std::string key, std::function<void()> hook)
      : store_(std::move(store)), key_(std::move(key)), hook_(std::move(hook)) {}

  std::string Describe() const override { return store_->Describe(); }
  std::optional<std::string> Get(const std::string& key, uint64_t max_bytes) override {
    return store_->Get(key, max_bytes);
  }
  std::string GetRange(const std::string& key, uint64_t offset, uint64_t length) override {
    return store_->GetRange(key, offset, length);
  }
  std::optional<uint64_t> Size(const std::string& key) override { return store_->Size(key); }
  void Fetch(const std::string& key, const fs::path& file,
             const store::TransferProgress& progress) override {
    store_->Fetch(key, file, progress);
  }
  void Put(const std::string& key, ByteSpan content) override {
    store_->Put(key, content);
    Changed(key);
  }
  FileDigest PutFile(const std::string& key, const fs::path& file,
                     const store::TransferProgress& progress) override {
    return store_->PutFile(key, file, progress);
  }
  bool Create(const std::string& key, ByteSpan content) override {
    const bool created = store_->Create(key, content);
    Changed(key);
    return created;
  }
  std::vector<std::string> List(const std::string& prefix) override { return store_->List(prefix); }
  void Delete(const std::string& key) override {
    store_->Delete(key);
    Changed(key);
  }

 private:
  void Changed(const std::string& key) {
    if (key == key_) std::exchange(hook_, [] {})();
  }

  std::unique_ptr<Store> store_;
  std::string key_;
  std::function<void()> hook_;
};

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_HOOKED_STORE_H_
