#include "isthmus/relay/cache_index.h"

#include "isthmus/base/error.h"

namespace isthmus::relay {

uint64_t CacheIndex::PinnedBytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, count] : pins_) {
    const auto found = entries_.find(name);
    if (found != entries_.end()) bytes += found->second.bytes;
  }
  return bytes;
}

bool CacheIndex::Reserve(uint64_t bytes, std::vector<std::string>* evicted) {
  const uint64_t kept = reserved_ + PinnedBytes();
  if (kept > limit_ || bytes > limit_ - kept) return false;
  for (auto at = order_.begin(); at != order_.end() && used_bytes() > limit_ - bytes;) {
    const std::string name = *at++;
    if (pins_.contains(name)) continue;
    Remove(name);
    evicted->push_back(name);
    ++evictions_;
  }
  reserved_ += bytes;
  return true;
}

void CacheIndex::Commit(const std::string& name, uint64_t bytes) {
  if (Contains(name)) Throw(ErrorCode::kInternal, "cache {}: it is there already", name);
  Release(bytes);
  held_ += bytes;
  entries_[name] = {bytes, order_.insert(order_.end(), name)};
}

void CacheIndex::Pin(const std::string& name) {
  order_.splice(order_.end(), order_, entries_.at(name).place);
  ++pins_[name];
}

void CacheIndex::Unpin(const std::string& name) {
  const auto found = pins_.find(name);
  if (--found->second == 0) pins_.erase(found);
}

void CacheIndex::Remove(const std::string& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  held_ -= found->second.bytes;
  order_.erase(found->second.place);
  entries_.erase(found);
}

}  // namespace isthmus::relay
