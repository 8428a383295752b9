// Streamed answers: events are split, stamped and counted. The input is the stream.
#include <simdjson.h>

#include "fuzz/fuzz.h"
#include "isthmus/lane/event_stamp.h"
#include "isthmus/lane/version_spans.h"
#include "isthmus/net/sse.h"

namespace isthmus::fuzz {
namespace {

using lane::AnswerShape;
using lane::VersionSpans;
using net::SseEvent;
using net::SseSplitter;

constexpr std::string_view kMembers = R"("s":41,"e":42)";
constexpr size_t kMaxEventBytes = size_t{1} << 20;  // more than any input has

// What is kept of an event.
struct Fields {
  std::string event;
  std::string id;
  std::string retry;
  std::string data;
  bool has_data = false;
};

struct Stream {
  std::vector<Fields> events;
  std::string rest;
};

template <typename Visit>
Stream Split(std::string_view text, const Visit& visit) {
  Stream stream;
  SseSplitter splitter(kMaxEventBytes);
  splitter.Feed(text, [&](const SseEvent& event) {
    stream.events.push_back({std::string(event.event), std::string(event.id),
                             std::string(event.retry), std::string(event.data), event.has_data});
    visit(event);
  });
  stream.rest = splitter.rest();
  return stream;
}

void CheckSame(const Fields& before, const Fields& after) {
  Require(before.event == after.event && before.id == after.id && before.retry == after.retry &&
              before.has_data == after.has_data,
          "a stamp changes another line");
  if (before.data == after.data) return;
  Require(after.data.find(kMembers) != std::string::npos, "data is changed, but not stamped");
  Require(after.data.size() > before.data.size(), "stamped data is shorter");
}

void CheckStamps(std::string_view text, AnswerShape shape) {
  std::string stamped;
  const Stream before = Split(text, [&](const SseEvent& event) {
    const size_t size = stamped.size();
    AppendStamped(event, shape, std::string(kMembers), &stamped);
    Require(stamped.size() >= size + event.raw.size(), "an event loses bytes");
  });
  stamped.append(before.rest);
  const Stream after = Split(stamped, [](const SseEvent& /*event*/) {});
  Require(before.events.size() == after.events.size(), "stamps make or unmake events");
  Require(before.rest == after.rest, "stamps change the end of a stream");
  for (size_t i = 0; i < before.events.size(); ++i) CheckSame(before.events[i], after.events[i]);
}

uint64_t Number(simdjson::dom::element span, std::string_view key) {
  return span[key].get_uint64();
}

// Spans meet, and none is empty.
void CheckRecord(const std::string& member) {
  simdjson::dom::parser parser;
  const simdjson::padded_string text("{" + member + "}");
  simdjson::dom::element record;
  Require(parser.parse(text)["weight_version_spans"].get(record) == simdjson::SUCCESS,
          "a record is no JSON");
  for (const simdjson::dom::element choice : record["choices"].get_array()) {
    uint64_t end = 0;
    for (const simdjson::dom::element span : choice["spans"].get_array()) {
      Require(Number(span, "start") == end, "spans do not meet");
      end = Number(span, "end");
      Require(end > Number(span, "start"), "a span is empty");
    }
  }
}

void CheckSpans(std::string_view text) {
  VersionSpans spans(1);
  board::VersionNumber version = 1;
  Split(text, [&](const SseEvent& event) {
    spans.Count(event.data);
    spans.OnVersion(++version / 2);
  });
  CheckRecord(spans.Member());
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = isthmus::fuzz::TextOf(data, size);
  isthmus::fuzz::CheckStamps(text, isthmus::lane::AnswerShape::kObject);
  isthmus::fuzz::CheckStamps(text, isthmus::lane::AnswerShape::kMetaInfo);
  isthmus::fuzz::CheckSpans(text);
  return 0;
}
