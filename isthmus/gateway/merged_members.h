// One JSON object made of several, member by member, without parsing and printing values. Pure.
#ifndef ISTHMUS_GATEWAY_MERGED_MEMBERS_H_
#define ISTHMUS_GATEWAY_MERGED_MEMBERS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/net/byte_budget.h"

namespace isthmus::gateway {

// What the parts of one answer may hold together, of what all answers may.
class AnswerBudget {
 public:
  // `all` must outlive this.
  AnswerBudget(size_t bytes, net::ByteBudget& all) : left_(bytes), share_(all) {}

  // False, from the first time that there is no place: then nothing more is taken.
  bool Take(size_t bytes) {
    cut_ = cut_ || bytes > left_ || !share_.Grow(bytes);
    if (!cut_) left_ -= bytes;
    return !cut_;
  }
  void GiveBack(size_t bytes) {
    left_ += bytes;
    share_.Shrink(bytes);
  }
  void Cut() { cut_ = true; }
  bool cut() const { return cut_; }

 private:
  size_t left_;
  net::ByteBudget::Share share_;
  bool cut_ = false;
};

// Keys and values are as a JsonReader hands them out. Values are kept on one line.
class MergedMembers {
 public:
  // Of one object. Further ones cut the answer.
  static constexpr size_t kMaxMembers = 256;

  enum class Rule {
    kFirst,  // that is not null
    kLast,   // that is not null
    kJoin,   // strings end to end, lists end to end; else the last
  };

  void Add(std::string_view key, std::string_view value, Rule rule, AnswerBudget* budget);

  bool empty() const { return members_.empty(); }
  // The value of a key that is spelled without escapes; empty: none.
  std::string_view Find(std::string_view quoted_key) const;
  // Appends `"a":1,"b":2`, without braces.
  void AppendTo(std::string* out) const;

 private:
  struct Member {
    std::string key;
    std::string value;
  };

  Member* Get(std::string_view key);

  std::vector<Member> members_;
};

// Puts `list`'s elements behind those of `joined`, or a string's characters: of one kind both, each
// one whole value. Charged to the budget; unchanged if there is no place.
void JoinJson(std::string_view part, std::string* joined, AnswerBudget* budget);
// `joined` becomes the value. Charged likewise.
void ReplaceJson(std::string_view value, std::string* joined, AnswerBudget* budget);

// Counts and indices in JSON: nullopt unless decimal digits alone, to 2^53.
std::optional<uint64_t> NaturalOf(std::string_view value);

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_MERGED_MEMBERS_H_
