#include "isthmus/store/read_ahead.h"

#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::store {

ReadAhead::ReadAhead(std::unique_ptr<Store> store, const std::vector<std::string>& keys,
                     uint64_t max_bytes)
    : store_(std::move(store)) {
  for (const std::string& key : keys) {
    answers_[key] = std::async(std::launch::async, [this, key, max_bytes] {
                      return store_->Get(key, max_bytes);
                    }).share();
  }
}

// The last owner of what std::async gives waits for it: here, while store_ is still there.
ReadAhead::~ReadAhead() { answers_.clear(); }

std::shared_future<ReadAhead::Answer> ReadAhead::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(key);
  return found == answers_.end() ? std::shared_future<Answer>() : found->second;
}

void ReadAhead::Forget(const std::string& key) {
  std::shared_future<Answer> waited_for_outside_of_the_lock;
  const std::lock_guard lock(mutex_);
  if (const auto found = answers_.find(key); found != answers_.end()) {
    waited_for_outside_of_the_lock = std::move(found->second);
    answers_.erase(found);
  }
}

std::optional<std::string> ReadAhead::Get(const std::string& key, uint64_t max_bytes) {
  const std::shared_future<Answer> found = Find(key);
  if (!found.valid()) return store_->Get(key, max_bytes);
  Forget(key);
  try {
    Answer answer = found.get();
    if (!answer || answer->size() <= max_bytes) return answer;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt) throw;
  }
  return store_->Get(key, max_bytes);
}

std::optional<uint64_t> ReadAhead::Size(const std::string& key) {
  const std::shared_future<Answer> found = Find(key);
  if (!found.valid()) return store_->Size(key);
  try {
    const Answer& answer = found.get();
    if (answer) return answer->size();
    Forget(key);
    return std::nullopt;
  } catch (const Error& error) {
    Forget(key);
    if (error.code() != ErrorCode::kCorrupt) throw;
  }
  return store_->Size(key);
}

std::string ReadAhead::GetRange(const std::string& key, uint64_t offset, uint64_t length) {
  return store_->GetRange(key, offset, length);
}

void ReadAhead::Fetch(const std::string& key, const fs::path& file, uint64_t max_bytes,
                      const TransferProgress& progress) {
  store_->Fetch(key, file, max_bytes, progress);
}

void ReadAhead::Put(const std::string& key, ByteSpan content) {
  Forget(key);
  store_->Put(key, content);
}

FileDigest ReadAhead::PutFile(const std::string& key, const fs::path& file,
                              const TransferProgress& progress) {
  Forget(key);
  return store_->PutFile(key, file, progress);
}

bool ReadAhead::Create(const std::string& key, ByteSpan content) {
  Forget(key);
  return store_->Create(key, content);
}

std::vector<std::string> ReadAhead::List(const std::string& prefix) { return store_->List(prefix); }

void ReadAhead::Delete(const std::string& key) {
  Forget(key);
  store_->Delete(key);
}

}  // namespace isthmus::store
