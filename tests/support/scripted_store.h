// A store in memory that waits, fails and changes its mind when it is told to.
#ifndef ISTHMUS_TESTS_SUPPORT_SCRIPTED_STORE_H_
#define ISTHMUS_TESTS_SUPPORT_SCRIPTED_STORE_H_

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/store/store.h"

namespace isthmus::testing {

// What all clients of one place share. Thread-safe.
class ScriptedPlace {
 public:
  void Set(const std::string& key, std::string content) {
    const std::lock_guard lock(mutex_);
    objects_[key] = std::move(content);
  }
  void Remove(const std::string& key) {
    const std::lock_guard lock(mutex_);
    objects_.erase(key);
  }
  // From now on every call fails with this, if it is given.
  void FailWith(std::optional<Error> error) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(error);
  }
  // Ranges wait until so many more were let pass.
  void HoldRanges() {
    const std::lock_guard lock(mutex_);
    held_ = true;
    passes_ = 0;
  }
  void LetPass(size_t ranges) {
    const std::lock_guard lock(mutex_);
    passes_ += ranges;
    changed_.notify_all();
  }
  void LetAllPass() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  // Calls of this kind so far: "get", "range", "size", "list".
  size_t Calls(const std::string& kind) {
    const std::lock_guard lock(mutex_);
    return calls_[kind];
  }
  uint64_t RangeBytes() {
    const std::lock_guard lock(mutex_);
    return range_bytes_;
  }

  std::optional<std::string> Read(const std::string& kind, const std::string& key) {
    std::unique_lock lock(mutex_);
    ++calls_[kind];
    if (kind == "range") {
      changed_.wait(lock, [this] { return !held_ || passes_ > 0; });
      if (held_) --passes_;
    }
    if (failure_) throw Error(*failure_);
    const auto found = objects_.find(key);
    return found == objects_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string ReadRange(const std::string& key, uint64_t offset, uint64_t length) {
    const std::optional<std::string> content = Read("range", key);
    if (!content) Throw(ErrorCode::kNotFound, "read {}: no such object", key);
    if (offset + length > content->size()) {
      Throw(ErrorCode::kCorrupt, "read {}: the object ends before", key);
    }
    const std::lock_guard lock(mutex_);
    range_bytes_ += length;
    return content->substr(offset, length);
  }
  std::vector<std::string> List(const std::string& prefix) {
    Read("list", "");
    const std::lock_guard lock(mutex_);
    std::vector<std::string> keys;
    for (const auto& [key, content] : objects_) {
      if (key.starts_with(prefix)) keys.push_back(key);
    }
    return keys;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> objects_;
  std::map<std::string, size_t> calls_;
  std::optional<Error> failure_;
  bool held_ = false;
  size_t passes_ = 0;
  uint64_t range_bytes_ = 0;
};

// One client, which only reads.
class ScriptedStore final : public store::Store {
 public:
  explicit ScriptedStore(std::shared_ptr<ScriptedPlace> place) : place_(std::move(place)) {}

  std::string Describe() const override { return "a scripted store"; }
  std::optional<std::string> Get(const std::string& key, uint64_t max_bytes) override {
    auto content = place_->Read("get", key);
    if (content && content->size() > max_bytes) Throw(ErrorCode::kCorrupt, "read {}: large", key);
    return content;
  }
  std::string GetRange(const std::string& key, uint64_t offset, uint64_t length) override {
    return place_->ReadRange(key, offset, length);
  }
  std::optional<uint64_t> Size(const std::string& key) override {
    const auto content = place_->Read("size", key);
    return content ? std::optional<uint64_t>(content->size()) : std::nullopt;
  }
  std::vector<std::string> List(const std::string& prefix) override { return place_->List(prefix); }

  void Fetch(const std::string& key, const fs::path& /*file*/, uint64_t /*max_bytes*/,
             const store::TransferProgress& /*progress*/) override {
    Refuse(key);
  }
  void Put(const std::string& key, ByteSpan /*content*/) override { Refuse(key); }
  FileDigest PutFile(const std::string& key, const fs::path& /*file*/,
                     const store::TransferProgress& /*progress*/) override {
    Refuse(key);
  }
  bool Create(const std::string& key, ByteSpan /*content*/) override { Refuse(key); }
  void Delete(const std::string& key) override { Refuse(key); }

 private:
  [[noreturn]] static void Refuse(const std::string& key) {
    Throw(ErrorCode::kInternal, "{}: this store only reads ranges", key);
  }

  std::shared_ptr<ScriptedPlace> place_;
};

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_SCRIPTED_STORE_H_
