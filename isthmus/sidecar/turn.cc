#include "isthmus/sidecar/turn.h"

#include <charconv>

#include "isthmus/base/error.h"
#include "isthmus/lane/event_stamp.h"

namespace isthmus::sidecar {

using lane::StampMembers;

namespace {

constexpr int kSuccess = 2;  // of status / 100

// Of an answer in one piece nobody can say which token is of which version, only which versions.
std::string VersionsMember(const Stamp& stamp) {
  std::string versions = fmt::format("{}", stamp.start);
  for (const VersionChange& change : stamp.record.changes) {
    versions += fmt::format(",{}", change.to);
  }
  return fmt::format(R"("weight_version_spans":{{"exact":false,"complete":{},"versions":[{}]}})",
                     stamp.record.complete, versions);
}

}  // namespace

void AddRequestId(const std::string& id, net::Headers* headers) {
  if (!id.empty()) headers->Add("Isthmus-Request-Id", id);
}

void AddStampFields(const std::string& run, const Stamp& stamp, bool ended, net::Headers* headers) {
  headers->Add("Isthmus-Run", run);
  headers->Add("Isthmus-Version-Start", std::to_string(stamp.start));
  if (ended) headers->Add("Isthmus-Version-End", std::to_string(stamp.end));
}

JsonAnswer::JsonAnswer(const Route& route, const Stamp& stamp, bool spans,
                       const net::ResponseHead& head) {
  if (head.status / 100 != kSuccess) return;
  const std::string member = spans && !route.native_spans ? VersionsMember(stamp) : "";
  stamp_ = lane::MakeAnswerStamp(route.shape, StampMembers(stamp.start, stamp.end, member));
}

void JsonAnswer::Feed(std::string_view piece, bool last, AnswerStamp::Pieces* out) {
  if (!stamp_) return out->push_back(piece);
  stamp_->Feed(piece, out);
  if (last) stamp_->Finish(out);
}

net::ResponseHead JsonAnswer::HeadFor(net::ResponseHead head) const {
  const std::optional<std::string_view> text = head.headers.Find("Content-Length");
  if (!stamp_ || !text) return head;
  const std::optional<size_t> inserted = stamp_->inserted_bytes();
  uint64_t length = 0;
  std::from_chars(text->data(), text->data() + text->size(), length);  // the client has checked it
  head.headers.Remove("Content-Length");
  if (inserted) head.headers.Add("Content-Length", std::to_string(length + *inserted));
  return head;
}

EventAnswer::EventAnswer(const Route& route, const Admission& admission, bool spans)
    : route_(route), admission_(admission) {
  if (spans && !route.native_spans) spans_.emplace(admission.decision().version);
}

void EventAnswer::Feed(std::string_view piece, std::string* out) {
  Refresh();
  splitter_.Feed(piece, [&](const net::SseEvent& event) { Take(event, out); });
}

void EventAnswer::Take(const net::SseEvent& event, std::string* out) {
  if (spans_ && spans_->Count(event.data)) {
    const Stamp stamp = admission_.stamp();
    lane::AppendStamped(event, route_.shape, StampMembers(stamp.start, stamp.end, spans_->Member()),
                        out);
  } else {
    lane::AppendStamped(event, route_.shape, members_, out);
  }
}

// A piece is of the version of now (docs/request-lane.md, "Stamps").
void EventAnswer::Refresh() {
  const VersionNumber end = admission_.last_version();
  if (end == end_) return;
  end_ = end;
  members_ = StampMembers(admission_.decision().version, end);
  if (spans_) spans_->OnVersion(end);
}

}  // namespace isthmus::sidecar
