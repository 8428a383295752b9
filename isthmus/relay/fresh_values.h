// Answers of the origin that may change, for a short while. Pure: time is given.
#ifndef ISTHMUS_RELAY_FRESH_VALUES_H_
#define ISTHMUS_RELAY_FRESH_VALUES_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "isthmus/base/clock.h"

namespace isthmus::relay {

// What was asked of the origin.
enum class Question : char { kSize = 's', kContent = 'c', kList = 'l' };

struct Answer {
  bool missing = false;
  uint64_t bytes = 0;                                    // the object's size
  std::shared_ptr<const std::string> content = nullptr;  // of a small object; a list as JSON
};

// Not thread-safe. Bounded in number and bytes: if there is too much, all of it is forgotten, which
// costs the origin a few questions.
class FreshValues {
 public:
  static constexpr size_t kMaxValues = 65'536;
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

  explicit FreshValues(std::chrono::milliseconds fresh_for) : fresh_for_(fresh_for) {}

  // What was put less than `fresh_for` before; null if there is none. Lives until the next call.
  const Answer* Find(Question question, const std::string& key, MonotonicTime now) const;
  // `asked_at`: an answer is as old as its question.
  void Put(Question question, const std::string& key, Answer answer, MonotonicTime asked_at);

  void Forget(std::string_view key);
  // All that could tell something about a key with this prefix, lists too.
  void ForgetUnder(std::string_view prefix);

  size_t size() const { return values_.size(); }

 private:
  struct Value {
    Answer answer;
    MonotonicTime asked_at;
  };
  using Name = std::pair<std::string, Question>;

  static uint64_t BytesOf(const Name& name, const Answer& answer);
  template <typename Condition>
  void ForgetIf(Condition condition);

  std::chrono::milliseconds fresh_for_;
  std::map<Name, Value> values_;
  uint64_t bytes_ = 0;
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_FRESH_VALUES_H_
