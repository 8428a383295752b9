#include "isthmus/gateway/rollout_collector.h"

#include <algorithm>
#include <optional>

#include "isthmus/base/error.h"
#include "isthmus/gateway/folded_stream.h"
#include "isthmus/gateway/rollout.h"
#include "isthmus/lane/json_text.h"
#include "isthmus/net/sse.h"

namespace isthmus::gateway {
namespace {

using lane::JsonReader;
using lane::JsonStringIs;

constexpr uint64_t kMaxExpected = FoldedStream::kMaxChoices;

bool IsList(std::string_view value) { return value.starts_with('['); }

// How many prompts: a list of texts or of lists holds several, one of numbers is one.
uint64_t PromptsIn(std::string_view value, std::string_view marks) {
  uint64_t several = 0;
  if (!IsList(value)) return 1;
  JsonReader(value).Elements([&](std::string_view element) {
    several += marks.find(element.front()) == std::string_view::npos ? 0 : 1;
  });
  return std::max<uint64_t>(several, 1);
}

uint64_t CountIn(std::string_view sampling_params) {
  uint64_t n = 1;
  if (!sampling_params.starts_with('{')) return n;
  JsonReader(sampling_params).Members([&](std::string_view key, std::string_view value) {
    if (JsonStringIs(key, "n")) n = NaturalOf(value).value_or(1);
  });
  return n;
}

}  // namespace

uint64_t ExpectedChoices(std::string_view request_body) {
  uint64_t n = 1;
  uint64_t prompts = 1;
  try {
    JsonReader reader(request_body);
    reader.Members([&](std::string_view key, std::string_view value) {
      if (JsonStringIs(key, "n")) n = NaturalOf(value).value_or(1);
      if (JsonStringIs(key, "sampling_params")) n = CountIn(value);
      if (JsonStringIs(key, "prompt") || JsonStringIs(key, "text")) {
        prompts = PromptsIn(value, "\"[{");
      }
      // One conversation is a list of objects, one prompt of ids a list of numbers.
      if (JsonStringIs(key, "input_ids") || JsonStringIs(key, "messages")) {
        prompts = PromptsIn(value, "[");
      }
    });
    reader.End();
  } catch (const Error&) {
    return 1;
  }
  const auto bounded = [](uint64_t count) { return std::clamp<uint64_t>(count, 1, kMaxExpected); };
  return bounded(bounded(n) * bounded(prompts));
}

struct RolloutCollector::State {
  State(Form form, uint64_t expected, size_t max_bytes, net::ByteBudget& all)
      : budget(max_bytes, all), fold(expected, &budget) {
    if (form == Form::kEvents) splitter.emplace(max_bytes);
  }

  void Buffer(std::string_view piece) {
    if (!budget.Take(piece.size())) {
      budget.GiveBack(text.size());
      text = {};
      return;
    }
    text.append(piece);
  }
  void Split(std::string_view piece) {
    if (broken) return;
    try {
      splitter->Feed(piece, [this](const net::SseEvent& event) {
        if (event.has_data) fold.Add(event.data);
      });
    } catch (const Error&) {  // an event larger than all that may be held
      broken = true;
      budget.Cut();
    }
  }

  AnswerBudget budget;
  // Of one piece: what came; at the end on one line.
  std::string text;
  bool whole = false;
  // Of events.
  std::optional<net::SseSplitter> splitter;
  FoldedStream fold;
  bool broken = false;
};

RolloutCollector::RolloutCollector(Form form, uint64_t expected_choices, size_t max_bytes,
                                   net::ByteBudget& all)
    : state_(std::make_unique<State>(form, expected_choices, max_bytes, all)) {}
RolloutCollector::~RolloutCollector() = default;
RolloutCollector::RolloutCollector(RolloutCollector&& other) noexcept = default;
RolloutCollector& RolloutCollector::operator=(RolloutCollector&& other) noexcept = default;

void RolloutCollector::Feed(std::string_view piece) {
  if (state_->splitter) {
    state_->Split(piece);
  } else {
    state_->Buffer(piece);
  }
}

void RolloutCollector::End() {
  State& state = *state_;
  if (state.splitter) {
    state.fold.End();
    state.whole = state.broken;
    return;
  }
  if (state.budget.cut()) {
    state.whole = true;
    return;
  }
  std::optional<std::string> line = OnOneLine(state.text);
  state.whole = line.has_value();
  state.text = std::move(line).value_or("");
}

bool RolloutCollector::finished() const { return state_->whole || state_->fold.finished(); }

bool RolloutCollector::ended() const { return state_->splitter && state_->fold.ended(); }

bool RolloutCollector::cut() const { return state_->budget.cut(); }

std::string RolloutCollector::TakeAnswer() {
  if (!state_->splitter) return state_->whole ? std::move(state_->text) : std::string();
  std::string answer;
  state_->fold.AppendTo(&answer);
  // An event as deep as may be is too deep inside an answer.
  if (answer.empty() || OnOneLine(answer)) return answer;
  state_->budget.Cut();
  return {};
}

}  // namespace isthmus::gateway
