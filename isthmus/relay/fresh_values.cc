#include "isthmus/relay/fresh_values.h"

namespace isthmus::relay {

uint64_t FreshValues::BytesOf(const Name& name, const Answer& answer) {
  return name.first.size() + (answer.content ? answer.content->size() : 0);
}

const Answer* FreshValues::Find(Question question, const std::string& key,
                                MonotonicTime now) const {
  const auto found = values_.find({key, question});
  if (found == values_.end() || now - found->second.asked_at >= fresh_for_) return nullptr;
  return &found->second.answer;
}

void FreshValues::Put(Question question, const std::string& key, Answer answer,
                      MonotonicTime asked_at) {
  const Name name(key, question);
  const auto old = values_.find(name);
  if (old != values_.end()) {
    bytes_ -= BytesOf(name, old->second.answer);
    values_.erase(old);
  }
  const uint64_t bytes = BytesOf(name, answer);
  if (bytes > kMaxBytes) return;
  if (values_.size() >= kMaxValues || bytes_ + bytes > kMaxBytes) {
    values_.clear();
    bytes_ = 0;
  }
  bytes_ += bytes;
  values_.insert_or_assign(name, Value{std::move(answer), asked_at});
}

template <typename Condition>
void FreshValues::ForgetIf(Condition condition) {
  std::erase_if(values_, [&](const auto& value) {
    if (!condition(value.first)) return false;
    bytes_ -= BytesOf(value.first, value.second.answer);
    return true;
  });
}

void FreshValues::Forget(std::string_view key) {
  ForgetIf([&](const Name& name) { return name.first == key; });
}

void FreshValues::ForgetUnder(std::string_view prefix) {
  ForgetIf([&](const Name& name) {
    return name.first.starts_with(prefix) ||
           (name.second == Question::kList && prefix.starts_with(name.first));
  });
}

}  // namespace isthmus::relay
