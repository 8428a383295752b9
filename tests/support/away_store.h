// A store that cannot be reached while a test says so.
#ifndef ISTHMUS_TESTS_SUPPORT_AWAY_STORE_H_
#define ISTHMUS_TESTS_SUPPORT_AWAY_STORE_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/store/store.h"

namespace isthmus::testing {

// What the test holds in its hand. Thread-safe.
struct AwaySwitch {
  std::atomic<bool> away = false;
  std::atomic<int> answers_to_lose = 0;  // of calls to Create that were done all the same
  std::atomic<int> creates = 0;          // calls, also those that failed
};

// Passes everything on, unless it is away.
class AwayStore final : public store::Store {
 public:
  AwayStore(std::unique_ptr<store::Store> store, std::shared_ptr<AwaySwitch> control)
      : store_(std::move(store)), control_(std::move(control)) {}

  std::string Describe() const override { return store_->Describe(); }
  std::optional<std::string> Get(const std::string& key, uint64_t max_bytes) override {
    return Reach().Get(key, max_bytes);
  }
  std::string GetRange(const std::string& key, uint64_t offset, uint64_t length) override {
    return Reach().GetRange(key, offset, length);
  }
  std::optional<uint64_t> Size(const std::string& key) override { return Reach().Size(key); }
  void Fetch(const std::string& key, const fs::path& file, uint64_t max_bytes,
             const store::TransferProgress& progress) override {
    Reach().Fetch(key, file, max_bytes, progress);
  }
  void Put(const std::string& key, ByteSpan content) override { Reach().Put(key, content); }
  FileDigest PutFile(const std::string& key, const fs::path& file,
                     const store::TransferProgress& progress) override {
    return Reach().PutFile(key, file, progress);
  }
  bool Create(const std::string& key, ByteSpan content) override {
    ++control_->creates;
    const bool created = Reach().Create(key, content);
    if (control_->answers_to_lose > 0) {
      --control_->answers_to_lose;
      Throw(ErrorCode::kUnavailable, "create {}: the answer was lost", key);
    }
    return created;
  }
  std::vector<std::string> List(const std::string& prefix) override { return Reach().List(prefix); }
  void Delete(const std::string& key) override { Reach().Delete(key); }

 private:
  store::Store& Reach() {
    if (control_->away) Throw(ErrorCode::kUnavailable, "reach {}: it is away", store_->Describe());
    return *store_;
  }

  std::unique_ptr<store::Store> store_;
  std::shared_ptr<AwaySwitch> control_;
};

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_AWAY_STORE_H_
