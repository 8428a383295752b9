#include "isthmus/lane/version_spans.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "isthmus/base/error.h"
#include "isthmus/lane/json_text.h"

namespace isthmus::lane {
namespace {

// Counts and indices: above, doubles have gaps, and sums of them could wrap.
constexpr uint64_t kMaxNatural = uint64_t{1} << 53;

std::optional<uint64_t> Natural(std::string_view value) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.begin(), value.end(), number);
  if (error != std::errc() || end != value.end() || number > kMaxNatural) return std::nullopt;
  return number;
}

bool IsList(std::string_view value) { return value.starts_with('['); }
bool IsObject(std::string_view value) { return value.starts_with('{'); }

// Strings, lists and objects that hold something.
bool HoldsSomething(std::string_view value) {
  switch (value.front()) {
    case '"':
      return value.size() > 2;
    case '[':
    case '{':
      return value.find_first_not_of(kJsonSpace, 1) != value.size() - 1;
    default:
      return false;
  }
}

uint64_t Length(std::string_view list) {
  uint64_t length = 0;
  JsonReader(list).Elements([&](std::string_view /*value*/) { ++length; });
  return length;
}

std::optional<uint64_t> LengthIfList(std::string_view value) {
  if (!IsList(value)) return std::nullopt;
  return Length(value);
}

// Of a choice's "logprobs".
std::optional<uint64_t> LoggedTokens(std::string_view logprobs) {
  std::optional<uint64_t> tokens;
  if (!IsObject(logprobs)) return tokens;
  JsonReader(logprobs).Members([&](std::string_view key, std::string_view value) {
    if (!JsonStringIs(key, "content") && !JsonStringIs(key, "tokens")) return;
    if (IsList(value)) tokens = Length(value);
  });
  return tokens;
}

bool HasContent(std::string_view delta) {
  bool found = false;
  if (!IsObject(delta)) return found;
  JsonReader(delta).Members([&](std::string_view key, std::string_view value) {
    found |= !JsonStringIs(key, "role") && HoldsSomething(value);
  });
  return found;
}

}  // namespace

bool VersionSpans::Count(std::string_view data) {
  std::vector<Tally> tallies;
  try {
    tallies = Read(data);
  } catch (const Error&) {
    return false;
  }
  for (const Tally& tally : tallies) Add(tally);
  return std::ranges::any_of(tallies, &Tally::finished);
}

std::vector<VersionSpans::Tally> VersionSpans::Read(std::string_view data) {
  std::string_view choices;
  std::string_view meta_info;
  std::string_view index;
  JsonReader reader(data);
  reader.Members([&](std::string_view key, std::string_view value) {
    if (JsonStringIs(key, "choices")) choices = value;
    if (JsonStringIs(key, "meta_info")) meta_info = value;
    if (JsonStringIs(key, "index")) index = value;
  });
  reader.End();

  std::vector<Tally> tallies;
  if (IsList(choices)) {
    uint64_t place = 0;
    JsonReader(choices).Elements([&](std::string_view choice) {
      if (IsObject(choice)) tallies.push_back(ReadChoice(choice, place));
      ++place;
    });
  } else if (IsObject(meta_info)) {
    tallies.emplace_back().index = Natural(index).value_or(0);
    ReadMetaInfo(meta_info, &tallies.back());
  }
  return tallies;
}

VersionSpans::Tally VersionSpans::ReadChoice(std::string_view choice, uint64_t place) {
  Tally tally;
  tally.index = place;
  std::optional<uint64_t> ids;
  std::optional<uint64_t> logged;
  JsonReader(choice).Members([&](std::string_view key, std::string_view value) {
    if (JsonStringIs(key, "index")) tally.index = Natural(value).value_or(place);
    if (JsonStringIs(key, "token_ids")) ids = LengthIfList(value);
    if (JsonStringIs(key, "logprobs")) logged = LoggedTokens(value);
    if (JsonStringIs(key, "text")) tally.text |= HoldsSomething(value);
    if (JsonStringIs(key, "delta")) tally.text |= HasContent(value);
    if (JsonStringIs(key, "finish_reason")) tally.finished = value != "null";
  });
  tally.tokens = ids ? ids : logged;
  return tally;
}

void VersionSpans::ReadMetaInfo(std::string_view meta_info, Tally* tally) {
  JsonReader(meta_info).Members([&](std::string_view key, std::string_view value) {
    if (JsonStringIs(key, "completion_tokens")) tally->tokens_so_far = Natural(value);
    if (JsonStringIs(key, "finish_reason")) tally->finished = value != "null";
  });
}

void VersionSpans::Add(const Tally& tally) {
  if (choices_.size() == kMaxChoices && !choices_.contains(tally.index)) {
    complete_ = false;
    return;
  }
  Choice& choice = choices_[tally.index];
  if (tally.tokens_so_far) return Grow(*tally.tokens_so_far, &choice);
  if (tally.tokens) return Grow(choice.end + *tally.tokens, &choice);
  if (!tally.text) return;
  in_tokens_ = false;
  Grow(choice.end + 1, &choice);
}

void VersionSpans::Grow(uint64_t end, Choice* choice) {
  if (end <= choice->end || choice->cut) return;
  auto& spans = choice->spans;
  if (spans.empty() || spans.back().version != version_) {
    choice->cut = span_count_ == kMaxSpans;
    complete_ &= !choice->cut;
    if (choice->cut) return;
    spans.push_back({version_, choice->end});
    ++span_count_;
  }
  choice->end = end;
}

std::string VersionSpans::Member() const {
  std::string out =
      fmt::format(R"("weight_version_spans":{{"exact":false,"unit":"{}","complete":{},"choices":[)",
                  in_tokens_ ? "token" : "chunk", complete_);
  const auto write = std::back_inserter(out);
  std::string_view comma;
  for (const auto& [index, choice] : choices_) {
    fmt::format_to(write, R"({}{{"index":{},"spans":[)", comma, index);
    comma = ",";
    for (size_t i = 0; i < choice.spans.size(); ++i) {
      const auto& [version, start] = choice.spans[i];
      const bool last = i + 1 == choice.spans.size();
      fmt::format_to(write, R"({}{{"version":{},"start":{},"end":{}}})", i == 0 ? "" : ",", version,
                     start, last ? choice.end : choice.spans[i + 1].start);
    }
    out.append("]}");
  }
  return out.append("]}");
}

}  // namespace isthmus::lane
