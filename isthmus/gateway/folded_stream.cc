#include "isthmus/gateway/folded_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "isthmus/base/error.h"
#include "isthmus/lane/json_text.h"

namespace isthmus::gateway {
namespace {

using lane::JsonReader;
using lane::JsonStringIs;
using Rule = MergedMembers::Rule;

// What a choice costs beside its members.
constexpr size_t kChoiceCost = 512;

bool IsList(std::string_view value) { return value.starts_with('['); }
bool IsObject(std::string_view value) { return value.starts_with('{'); }
bool IsString(std::string_view value) { return value.starts_with('"'); }

template <typename Members>
std::string_view ValueOf(const Members& members, std::string_view name) {
  std::string_view found;
  for (const auto& [key, value] : members) {
    if (JsonStringIs(key, name)) found = value;
  }
  return found;
}

uint64_t LengthOf(std::string_view list) {
  uint64_t length = 0;
  if (IsList(list)) JsonReader(list).Elements([&](std::string_view /*value*/) { ++length; });
  return length;
}

std::string_view InQuotes(std::string_view quoted) { return quoted.substr(1, quoted.size() - 2); }

bool IsOneOf(std::string_view quoted, std::initializer_list<std::string_view> names) {
  return IsString(quoted) &&
         std::ranges::any_of(names, [&](auto name) { return JsonStringIs(quoted, name); });
}

}  // namespace

// Read whole before anything is used of it: an event counts or does not.
void FoldedStream::Add(std::string_view data) {
  if (data == "[DONE]") return End();
  Members event;
  try {
    if (!lane::IsUtf8(data)) return;
    JsonReader reader(data);
    reader.Members([&](auto key, auto value) { event.emplace_back(key, value); });
    reader.End();
  } catch (const Error&) {
    return;
  }
  const std::string_view choices = ValueOf(event, "choices");
  const bool record = IsObject(ValueOf(event, "meta_info"));
  failed_ |= IsObject(ValueOf(event, "error"));
  if (shape_ == Shape::kUnknown) {
    shape_ = IsList(choices) ? Shape::kChoices : record ? Shape::kRecords : Shape::kOther;
  }
  if (shape_ == Shape::kChoices) return AddChoices(event, choices);
  if (shape_ == Shape::kOther) return AddOther(data, event);
  if (record) return AddRecord(event);
  for (const auto& [key, value] : event) outermost_.Add(key, value, Rule::kLast, budget_);
}

void FoldedStream::AddChoices(const Members& event, std::string_view choices) {
  for (const auto& [key, value] : event) {
    if (!JsonStringIs(key, "choices")) outermost_.Add(key, value, Rule::kLast, budget_);
  }
  if (!IsList(choices)) return;
  uint64_t place = 0;
  JsonReader(choices).Elements([&](std::string_view choice) {
    if (IsObject(choice)) AddChoice(choice, place);
    ++place;
  });
}

void FoldedStream::AddChoice(std::string_view json, uint64_t place) {
  Members members;
  JsonReader(json).Members([&](auto key, auto value) { members.emplace_back(key, value); });
  Choice* choice = ChoiceOf(NaturalOf(ValueOf(members, "index")).value_or(place));
  if (choice == nullptr) return;
  for (const auto& [key, value] : members) AddToChoice(key, value, choice);
  const std::string_view reason = ValueOf(members, "finish_reason");
  if (!reason.empty() && reason != "null") Finish(choice);
}

void FoldedStream::AddToChoice(std::string_view key, std::string_view value, Choice* choice) {
  if (JsonStringIs(key, "index")) return;
  if (JsonStringIs(key, "delta") || JsonStringIs(key, "message")) {
    return AddEach(value, Rule::kJoin, &choice->message);
  }
  if (JsonStringIs(key, "logprobs")) return AddEach(value, Rule::kJoin, &choice->logprobs);
  const bool joins = JsonStringIs(key, "text") || JsonStringIs(key, "token_ids");
  choice->members.Add(key, value, joins ? Rule::kJoin : Rule::kLast, budget_);
}

void FoldedStream::AddEach(std::string_view object, Rule rule, MergedMembers* merged) {
  if (!IsObject(object)) return;
  JsonReader(object).Members([&](std::string_view key, std::string_view value) {
    if (JsonStringIs(key, "role")) return merged->Add(key, value, Rule::kFirst, budget_);
    if (JsonStringIs(key, "tool_calls")) key = R"("tool_call_deltas")";
    merged->Add(key, value, rule, budget_);
  });
}

void FoldedStream::AddRecord(const Members& event) {
  Choice* record = ChoiceOf(NaturalOf(ValueOf(event, "index")).value_or(0));
  if (record == nullptr) return;
  const std::string_view meta_info = ValueOf(event, "meta_info");
  Members meta;
  JsonReader(meta_info).Members([&](auto key, auto value) { meta.emplace_back(key, value); });
  const std::string_view ids = ValueOf(event, "output_ids");
  const uint64_t count = LengthOf(ids);
  AddIds(ids, count, NaturalOf(ValueOf(meta, "completion_tokens")).value_or(count), record);
  for (const auto& [key, value] : event) {
    if (JsonStringIs(key, "output_ids") || JsonStringIs(key, "meta_info")) continue;
    if (JsonStringIs(key, "text") && IsString(value)) {
      AddText(value, record);
    } else {
      record->members.Add(key, value, Rule::kLast, budget_);
    }
  }
  AddMetaInfo(meta_info, count, record);
  const std::string_view reason = ValueOf(meta, "finish_reason");
  if (!reason.empty() && reason != "null") Finish(record);
}

void FoldedStream::AddIds(std::string_view ids, uint64_t count, uint64_t tokens, Choice* record) {
  if (!IsList(ids)) return;
  record->pieces |= count < tokens;
  const Rule rule = record->pieces ? Rule::kJoin : Rule::kLast;
  record->members.Add(R"("output_ids")", ids, rule, budget_);
}

void FoldedStream::AddText(std::string_view text, Choice* record) {
  std::string& last = record->text;
  std::string& joined = record->joined_text;
  if (record->pieces) {
    record->text_grows &= last.empty() || InQuotes(text).starts_with(InQuotes(last));
    if (joined.empty()) ReplaceJson(last.empty() ? R"("")" : last, &joined, budget_);
    if (!joined.empty()) JoinJson(text, &joined, budget_);
  }
  ReplaceJson(text, &last, budget_);
}

void FoldedStream::AddMetaInfo(std::string_view meta_info, uint64_t ids, Choice* record) {
  JsonReader(meta_info).Members([&](std::string_view key, std::string_view value) {
    const bool joins = record->pieces && InQuotes(key).starts_with("output_") && IsList(value) &&
                       LengthOf(value) <= ids;
    record->meta_info.Add(key, value, joins ? Rule::kJoin : Rule::kLast, budget_);
  });
}

void FoldedStream::AddOther(std::string_view data, const Members& event) {
  const std::string_view type = ValueOf(event, "type");
  last_event_ |= IsOneOf(type, {"response.completed", "response.incomplete", "message_stop"});
  failed_ |= IsOneOf(type, {"error", "response.failed"});
  if (const std::string_view error = ValueOf(event, "error"); IsObject(error)) {
    outermost_.Add(R"("error")", error, Rule::kLast, budget_);
  }
  JoinJson(fmt::format("[{}]", data), &events_, budget_);
}

FoldedStream::Choice* FoldedStream::ChoiceOf(uint64_t index) {
  const auto found = choices_.find(index);
  if (found != choices_.end()) return &found->second;
  if (choices_.size() == kMaxChoices || !budget_->Take(kChoiceCost)) {
    budget_->Cut();
    return nullptr;
  }
  return &choices_[index];
}

void FoldedStream::Finish(Choice* choice) {
  if (choice->finished) return;
  choice->finished = true;
  ++finished_choices_;
}

bool FoldedStream::finished() const {
  if (shape_ == Shape::kOther) return last_event_ || (ended_ && !failed_);
  const bool all = !choices_.empty() && finished_choices_ == choices_.size();
  return all && (ended_ || choices_.size() >= expected_);
}

void FoldedStream::AppendChoice(uint64_t index, const Choice& choice, std::string* out) {
  fmt::format_to(std::back_inserter(*out), R"({{"index":{})", index);
  if (!choice.members.empty()) out->push_back(',');
  choice.members.AppendTo(out);
  for (const auto& [name, merged] :
       {std::pair("message", &choice.message), std::pair("logprobs", &choice.logprobs)}) {
    if (merged->empty()) continue;
    out->append(",\"").append(name).append("\":{");
    merged->AppendTo(out);
    out->push_back('}');
  }
  out->push_back('}');
}

void FoldedStream::AppendChoices(std::string* out) const {
  out->push_back('{');
  outermost_.AppendTo(out);
  out->append(outermost_.empty() ? R"("choices":[)" : R"(,"choices":[)");
  std::string_view comma;
  for (const auto& [index, choice] : choices_) {
    out->append(std::exchange(comma, ","));
    AppendChoice(index, choice, out);
  }
  out->append("]}");
}

void FoldedStream::AppendRecord(const Choice& record, std::string* out) {
  const std::string& text = record.pieces && !record.text_grows ? record.joined_text : record.text;
  out->push_back('{');
  if (!text.empty()) out->append(R"("text":)").append(text).push_back(',');
  record.members.AppendTo(out);
  out->append(record.members.empty() ? R"("meta_info":{)" : R"(,"meta_info":{)");
  record.meta_info.AppendTo(out);
  out->append("}}");
}

// An error has no place in a list of records: it becomes one of its own.
void FoldedStream::AppendRecords(std::string* out) const {
  const bool list = choices_.size() + (outermost_.empty() ? 0 : 1) > 1;
  if (list) out->push_back('[');
  std::string_view comma;
  for (const auto& [index, record] : choices_) {
    out->append(std::exchange(comma, ","));
    AppendRecord(record, out);
  }
  if (!outermost_.empty()) {
    out->append(comma).push_back('{');
    outermost_.AppendTo(out);
    out->push_back('}');
  }
  if (list) out->push_back(']');
}

void FoldedStream::AppendTo(std::string* out) const {
  switch (shape_) {
    case Shape::kUnknown:
      return;
    case Shape::kChoices:
      return AppendChoices(out);
    case Shape::kRecords:
      return AppendRecords(out);
    case Shape::kOther:
      out->push_back('{');
      outermost_.AppendTo(out);
      out->append(outermost_.empty() ? "" : ",").append(R"("events":)").append(events_);
      out->push_back('}');
  }
}

}  // namespace isthmus::gateway
