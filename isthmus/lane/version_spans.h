// Which of a streamed answer's tokens came under which version, choice by choice: reads the events
// that pass and counts. What the counts mean: docs/request-lane.md, "Spans". Pure.
//
// A token counts for the version that was the engine's when its event was received; it may be of
// the version before, if it was on its way. So the spans are never called exact.
#ifndef ISTHMUS_LANE_VERSION_SPANS_H_
#define ISTHMUS_LANE_VERSION_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/board/manifest.h"

namespace isthmus::lane {

class VersionSpans {
 public:
  // Of one answer: 1 MiB of spans. Choices are what a request's "n" asks for.
  static constexpr size_t kMaxChoices = 4'096;
  static constexpr size_t kMaxSpans = 65'536;

  // `version` is the one that the request was admitted at.
  explicit VersionSpans(board::VersionNumber version) : version_(version) {}

  // The engines resume with `version`: what comes from here on counts for it. O(1).
  void OnVersion(board::VersionNumber version) { version_ = version; }
  // Counts what an event's data brings. Data that is no JSON object, or none of an answer, brings
  // nothing. True if it says that a choice has ended (finish_reason): after this one, no event of
  // the choice changes its spans.
  //
  // OpenAI's and vLLM's events bring, for each of "choices", by "index" or else by its place: the
  // length of token_ids; without them that of logprobs.content or logprobs.tokens; without those
  // 1, as one chunk, if there is text: "text" or a member of "delta" but the role is not empty.
  // SGLang's say how many tokens there are by now: meta_info.completion_tokens, of "index" or 0.
  bool Count(std::string_view data);

  // `"weight_version_spans":{…}` of what was counted, for StampMembers.
  std::string Member() const;

 private:
  struct Span {
    board::VersionNumber version = board::kNoVersion;
    uint64_t start = 0;  // it ends where the next one starts, the last one at Choice::end
  };
  struct Choice {
    std::vector<Span> spans;
    uint64_t end = 0;
    bool cut = false;  // there was no place for a span: nothing is counted any more
  };
  // What one event says of one choice.
  struct Tally {
    uint64_t index = 0;
    std::optional<uint64_t> tokens;  // in this event
    std::optional<uint64_t> tokens_so_far;
    bool text = false;
    bool finished = false;
  };

  static std::vector<Tally> Read(std::string_view data);
  static Tally ReadChoice(std::string_view choice, uint64_t place);
  static void ReadMetaInfo(std::string_view meta_info, Tally* tally);
  void Add(const Tally& tally);
  void Grow(uint64_t end, Choice* choice);

  board::VersionNumber version_;
  std::map<uint64_t, Choice> choices_;  // by index
  size_t span_count_ = 0;
  bool in_tokens_ = true;
  bool complete_ = true;
};

}  // namespace isthmus::lane

#endif  // ISTHMUS_LANE_VERSION_SPANS_H_
