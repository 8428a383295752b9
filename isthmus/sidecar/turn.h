// An admitted request on its way through the proxy, and the stamping of its answer.
#ifndef ISTHMUS_SIDECAR_TURN_H_
#define ISTHMUS_SIDECAR_TURN_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "isthmus/lane/routes.h"
#include "isthmus/lane/version_spans.h"
#include "isthmus/net/http.h"
#include "isthmus/net/sse.h"
#include "isthmus/sidecar/gate_keeper.h"
#include "isthmus/sidecar/proxy.h"
#include "isthmus/sidecar/time_limit.h"

namespace isthmus::sidecar {

struct Proxy::Turn {
  Admission admission;
  Route route;
  std::string run;
  bool spans = false;
  std::string session;
  net::ByteBudget::Share held;
  std::string request_id;  // empty: none
  TimeLimit* limit;
  std::string body;  // for the engine
};

// Isthmus-Request-Id, if it has one.
void AddRequestId(const std::string& id, net::Headers* headers);
// Isthmus-Run, Isthmus-Version-Start and, if it is known already, Isthmus-Version-End.
void AddStampFields(const std::string& run, const Stamp& stamp, bool ended, net::Headers* headers);

// The stamping of an answer that is one JSON text. Successful answers only: others pass as they
// are.
class JsonAnswer {
 public:
  JsonAnswer(const Route& route, const Stamp& stamp, bool spans, const net::ResponseHead& head);

  // Appends what may leave; it lives until the next call, and as long as `piece`.
  void Feed(std::string_view piece, bool last, AnswerStamp::Pieces* out);
  // After the first Feed: the answer's head, with the length that it will have.
  net::ResponseHead HeadFor(net::ResponseHead head) const;

 private:
  std::unique_ptr<AnswerStamp> stamp_;  // none: passes unchanged
};

// The stamping of an answer that comes as server-sent events.
class EventAnswer {
 public:
  // An event above this is no longer one of tokens; it bounds memory.
  static constexpr size_t kMaxEventBytes = size_t{64} << 20;

  // `admission` must outlive this.
  EventAnswer(const Route& route, const Admission& admission, bool spans);

  // Appends to `out` the events that are complete, stamped with the versions of now.
  void Feed(std::string_view piece, std::string* out);
  // Appends what is no complete event.
  void Finish(std::string* out) { *out += splitter_.rest(); }

 private:
  void Take(const net::SseEvent& event, std::string* out);
  void Refresh();

  Route route_;
  const Admission& admission_;
  std::optional<lane::VersionSpans> spans_;
  VersionNumber end_ = kNoVersion;  // that members_ speaks of
  std::string members_;
  net::SseSplitter splitter_{kMaxEventBytes};
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_TURN_H_
