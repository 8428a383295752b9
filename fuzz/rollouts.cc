// Recorded answers: streams are folded, texts are embedded. The first byte says how the input is
// cut and what it may take, the rest is the answer.
#include <simdjson.h>

#include "fuzz/fuzz.h"
#include "isthmus/gateway/rollout.h"
#include "isthmus/gateway/rollout_collector.h"

namespace isthmus::fuzz {
namespace {

using gateway::Rollout;
using gateway::RolloutCollector;

constexpr size_t kSmall = 4'096;
constexpr size_t kLarge = size_t{16} << 20;  // more than any input brings

struct Collected {
  std::string answer;
  bool cut = false;
  bool finished = false;
};

Collected Collect(RolloutCollector::Form form, std::string_view text, size_t max_bytes,
                  size_t step) {
  net::ByteBudget all(kLarge);
  RolloutCollector collector(form, 1, max_bytes, all);
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, step);
    collector.Feed(piece);
    text.remove_prefix(piece.size());
  }
  collector.End();
  const bool finished = collector.finished();
  return {collector.TakeAnswer(), collector.cut(), finished};
}

// As strict readers see it. What simdjson refuses though it is JSON: numbers that no 64 bits or
// double hold, deep nesting, and escapes of half a surrogate pair, which engines may send.
void CheckLine(const Collected& collected) {
  Rollout rollout;
  rollout.request_id = "id";
  rollout.answer = collected.answer;
  const std::string line = ToLine(rollout);
  Require(line.find_first_of("\r\n") == std::string::npos, "a line has an end inside");
  Require(gateway::IdOfLine(line) == "id", "a line has another id");
  if (collected.answer.empty()) return;
  Require(line.ends_with(R"("answer":)" + collected.answer + "}"), "an answer is no JSON");
  simdjson::dom::parser parser;
  const auto error = parser.parse(simdjson::padded_string(line)).error();
  Require(error == simdjson::SUCCESS || error == simdjson::NUMBER_ERROR ||
              error == simdjson::DEPTH_ERROR || error == simdjson::STRING_ERROR,
          "a line is no JSON");
}

void Check(RolloutCollector::Form form, std::string_view text, size_t step) {
  const Collected whole = Collect(form, text, kLarge, std::string_view::npos);
  const Collected pieces = Collect(form, text, kLarge, step);
  Require(
      whole.answer == pieces.answer && whole.cut == pieces.cut && whole.finished == pieces.finished,
      "an answer depends on how it is cut");
  CheckLine(whole);
  const Collected small = Collect(form, text, kSmall, step);
  // Brackets and names of what is put together come on top.
  Require(small.answer.size() <= 2 * kSmall, "an answer is larger than it may be");
  CheckLine(small);
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Form = isthmus::gateway::RolloutCollector::Form;
  isthmus::fuzz::Input input(data, size);
  const size_t step = size_t{input.U8()} + 1;
  const std::string_view text = isthmus::AsText(input.rest());
  isthmus::fuzz::Check(Form::kEvents, text, step);
  isthmus::fuzz::Check(Form::kOnePiece, text, step);
  isthmus::gateway::ExpectedChoices(text);
  return 0;
}
