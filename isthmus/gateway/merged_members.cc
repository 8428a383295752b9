#include "isthmus/gateway/merged_members.h"

#include <algorithm>
#include <charconv>

#include "isthmus/lane/json_text.h"

namespace isthmus::gateway {
namespace {

// What a member costs beside its bytes.
constexpr size_t kMemberCost = 64;
// Above, doubles have gaps, and sums could wrap.
constexpr uint64_t kMaxNatural = uint64_t{1} << 53;

bool IsLineEnd(char c) { return c == '\n' || c == '\r'; }

// What is between the brackets or quotes; white space of an empty list goes.
std::string_view Inside(std::string_view value) {
  const std::string_view inside = value.substr(1, value.size() - 2);
  const bool blank =
      value.front() == '[' && inside.find_first_not_of(lane::kJsonSpace) == std::string_view::npos;
  return blank ? std::string_view() : inside;
}

bool CanJoin(std::string_view joined, std::string_view part) {
  return joined.front() == part.front() && (part.front() == '"' || part.front() == '[');
}

void AppendOnOneLine(std::string_view text, std::string* out) {
  const size_t begin = out->size();
  out->append(text);
  std::replace_if(out->begin() + static_cast<ptrdiff_t>(begin), out->end(), IsLineEnd, ' ');
}

}  // namespace

void JoinJson(std::string_view part, std::string* joined, AnswerBudget* budget) {
  const std::string_view inside = Inside(part);
  if (inside.empty() || !budget->Take(inside.size() + 1)) return;
  const char close = joined->back();
  const bool comma = close == ']' && joined->size() > 2;
  joined->pop_back();
  if (comma) joined->push_back(',');
  AppendOnOneLine(inside, joined);
  joined->push_back(close);
}

void ReplaceJson(std::string_view value, std::string* joined, AnswerBudget* budget) {
  if (*joined == value) return;
  const size_t before = joined->size();
  if (value.size() > before && !budget->Take(value.size() - before)) return;
  if (value.size() < before) budget->GiveBack(before - value.size());
  joined->clear();
  const bool empty_list = value.front() == '[' && Inside(value).empty();
  AppendOnOneLine(empty_list ? "[]" : value, joined);
}

void MergedMembers::Add(std::string_view key, std::string_view value, Rule rule,
                        AnswerBudget* budget) {
  Member* member = Get(key);
  if (member == nullptr) {
    if (members_.size() == kMaxMembers) return budget->Cut();
    if (!budget->Take(key.size() + kMemberCost)) return;
    members_.push_back({std::string(key), "null"});
    member = &members_.back();
  }
  if (value == "null") return;
  if (member->value == "null") return ReplaceJson(value, &member->value, budget);
  if (rule == Rule::kFirst) return;
  if (rule == Rule::kJoin && CanJoin(member->value, value)) {
    return JoinJson(value, &member->value, budget);
  }
  ReplaceJson(value, &member->value, budget);
}

MergedMembers::Member* MergedMembers::Get(std::string_view key) {
  const auto found = std::ranges::find(members_, key, &Member::key);
  return found == members_.end() ? nullptr : &*found;
}

std::string_view MergedMembers::Find(std::string_view quoted_key) const {
  const auto found = std::ranges::find(members_, quoted_key, &Member::key);
  return found == members_.end() ? std::string_view() : found->value;
}

void MergedMembers::AppendTo(std::string* out) const {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (i > 0) out->push_back(',');
    out->append(members_[i].key).append(":").append(members_[i].value);
  }
}

std::optional<uint64_t> NaturalOf(std::string_view value) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.begin(), value.end(), number);
  if (error != std::errc() || end != value.end() || number > kMaxNatural) return std::nullopt;
  return number;
}

}  // namespace isthmus::gateway
