// The answer in one piece that a stream's events amount to: docs/rollouts.md, "The answer of a
// stream". Takes the data of each event. Pure.
#ifndef ISTHMUS_GATEWAY_FOLDED_STREAM_H_
#define ISTHMUS_GATEWAY_FOLDED_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isthmus/gateway/merged_members.h"

namespace isthmus::gateway {

class FoldedStream {
 public:
  // What a request's "n" asks for. Further ones cut the answer.
  static constexpr size_t kMaxChoices = 4'096;

  // `expected` as of ExpectedChoices. `budget` must outlive it.
  FoldedStream(uint64_t expected, AnswerBudget* budget) : expected_(expected), budget_(budget) {}

  // Data that is no JSON object in UTF-8 brings nothing, but "[DONE]", which ends the stream.
  void Add(std::string_view data);
  // The stream has ended as it should.
  void End() { ended_ = true; }

  bool finished() const;
  // Nothing comes any more: "[DONE]" was seen, or what ends a stream without choices, or End
  // called.
  bool ended() const { return ended_ || last_event_; }
  // Appends the answer; nothing if no event brought anything.
  void AppendTo(std::string* out) const;

 private:
  // By the first event that says something.
  enum class Shape { kUnknown, kChoices, kRecords, kOther };
  using Members = std::vector<std::pair<std::string_view, std::string_view>>;

  // A choice of OpenAI's and vLLM's, or a record of SGLang's.
  struct Choice {
    MergedMembers members;
    MergedMembers message;  // of a choice
    MergedMembers logprobs;
    MergedMembers meta_info;  // of a record
    bool finished = false;
    // Of a record: "output_ids" come in pieces. "text" may come whole all the same: then each
    // event's begins with all before it.
    bool pieces = false;
    bool text_grows = true;
    std::string text;         // of the last event
    std::string joined_text;  // if in pieces
  };

  void AddChoices(const Members& event, std::string_view choices);
  void AddChoice(std::string_view json, uint64_t place);
  void AddToChoice(std::string_view key, std::string_view value, Choice* choice);
  void AddRecord(const Members& event);
  void AddIds(std::string_view ids, uint64_t count, uint64_t tokens, Choice* record);
  void AddText(std::string_view text, Choice* record);
  void AddMetaInfo(std::string_view meta_info, uint64_t ids, Choice* record);
  void AddOther(std::string_view data, const Members& event);
  void AddEach(std::string_view object, MergedMembers::Rule rule, MergedMembers* merged);
  Choice* ChoiceOf(uint64_t index);
  void Finish(Choice* choice);

  static void AppendChoice(uint64_t index, const Choice& choice, std::string* out);
  static void AppendRecord(const Choice& record, std::string* out);
  void AppendChoices(std::string* out) const;
  void AppendRecords(std::string* out) const;

  uint64_t expected_;
  AnswerBudget* budget_;
  Shape shape_ = Shape::kUnknown;
  MergedMembers outermost_;
  std::map<uint64_t, Choice> choices_;  // by index
  size_t finished_choices_ = 0;
  std::string events_ = "[]";  // of the shape kOther
  bool last_event_ = false;    // of the shape kOther, was seen
  bool failed_ = false;
  bool ended_ = false;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_FOLDED_STREAM_H_
