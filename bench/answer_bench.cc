// How fast answers pass the sidecar's text code, in pieces as they come from a socket, next to a
// memcpy of the same bytes. No arguments; CSV on standard output.
#include <cstring>
#include <string>

#include "bench/measure.h"
#include "isthmus/lane/answer_stamp.h"
#include "isthmus/lane/json_text.h"
#include "isthmus/lane/request_body.h"

namespace isthmus::bench {
namespace {

using lane::AnswerShape;
using lane::AnswerStamp;

constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr size_t kAnswerBytes = size_t{64} << 20;  // no cache holds it
constexpr size_t kRequestBytes = size_t{1} << 20;  // a long prompt, in tokens
constexpr size_t kRounds = 9;

// A text of about `size` bytes with `filling` repeated in a list.
std::string Text(size_t size, std::string_view filling) {
  std::string text = R"({"meta_info":{"id":"x","list":[)";
  while (text.size() < size) text.append(filling).append(",");
  return text.append("null]}}");
}

uint64_t Copy(std::string_view text, std::string* into) {
  for (size_t at = 0; at < text.size(); at += kPieceBytes) {
    const std::string_view piece = text.substr(at, kPieceBytes);
    std::memcpy(into->data(), piece.data(), piece.size());
  }
  return static_cast<uint64_t>(into->front());
}

uint64_t Stamp(AnswerShape shape, std::string_view text) {
  const auto stamp = MakeAnswerStamp(shape, lane::StampMembers(41, 42));
  AnswerStamp::Pieces pieces;
  size_t bytes = 0;
  const auto take = [&] {
    for (const std::string_view piece : pieces) bytes += piece.size();
    pieces.clear();
  };
  for (size_t at = 0; at < text.size(); at += kPieceBytes) {
    stamp->Feed(text.substr(at, kPieceBytes), &pieces);
    take();
  }
  stamp->Finish(&pieces);
  take();
  return bytes;
}

uint64_t Edit(std::string_view text) {
  return lane::RequestBody(text, "cache_salt").Edited("s").size();
}

void Measure(std::string_view name, std::string_view filling) {
  const std::string answer = Text(kAnswerBytes, filling);
  const std::string request = Text(kRequestBytes, filling);
  std::string copy(kPieceBytes, '\0');
  const auto seconds = TimeInTurn({{[&] { Consume(Copy(answer, &copy)); }},
                                   {[&] { Consume(Stamp(AnswerShape::kObject, answer)); }},
                                   {[&] { Consume(Stamp(AnswerShape::kMetaInfo, answer)); }},
                                   {[&] { Consume(Edit(request)); }}},
                                  kRounds);
  const auto print = [&](size_t loop, std::string_view metric, size_t bytes, Target target = {}) {
    const double speed = static_cast<double>(bytes) / Median(seconds[loop]) / 1e9;
    PrintRow("answer", name, metric, speed, "GB/s", target);
  };
  print(0, "memcpy", answer.size());
  print(1, "object stamped", answer.size(), Target::AtLeast(5));
  print(2, "meta_info stamped", answer.size());
  print(3, "request edited", request.size());
}

}  // namespace
}  // namespace isthmus::bench

int main() {
  isthmus::bench::PrintHeader();
  isthmus::bench::Measure("log-probabilities", "[-0.12345678,15123,null]");
  isthmus::bench::Measure("text", '"' + std::string(20'000, 'a') + '"');
  isthmus::bench::Measure("escaped text", R"("say \"it\" and\nthen \\ again")");
}
