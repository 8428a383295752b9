// The second half of the proxy: an island's answer on its way to the client.
#include <charconv>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/gateway/proxy.h"
#include "isthmus/gateway/staleness.h"
#include "isthmus/lane/answer_head.h"

namespace isthmus::gateway {
namespace {

using net::Task;

constexpr int kSuccess = 2;  // of status / 100

// Of an answer that was passed on, whatever it says.
TurnEnd EndOf(int status) {
  constexpr int kRevoked = 410;
  constexpr int kDeadline = 504;
  if (status == kDeadline) return TurnEnd::kDeadline;
  return status == kRevoked ? TurnEnd::kRevoked : TurnEnd::kServed;
}

VersionNumber NumberAt(std::string_view text) {
  VersionNumber version = kNoVersion;
  std::from_chars(text.data(), text.data() + text.size(), version);
  return version;
}

VersionNumber VersionIn(const net::ResponseHead& head, std::string_view name) {
  return NumberAt(head.headers.Find(name).value_or(""));
}

// Clients go when they have read this, though the end of the body is still to come.
bool EndsStream(std::string_view piece) { return piece.ends_with("data: [DONE]\n\n"); }

}  // namespace

Task<void> Proxy::PassOn(net::Exchange& exchange, Turn& turn, Reply& reply, IslandVisit& visit) {
  net::Call& call = *reply.call;
  bool reading = false;
  const struct Ending {
    ~Ending() { proxy.RecordFinished(turn); }
    Proxy& proxy;
    Turn& turn;
  } ending{*this, turn};  // whether or not the client is still there
  try {
    net::ResponseHead head = std::move(call.head());
    BeginAnswer(turn, call.done(), &head);
    exchange.Start(std::move(head));
    std::string_view piece = reply.begun;
    Observe(turn, piece);
    CheckEnd(turn, visit);
    while (!call.done()) {
      if (IsOver(turn, piece)) EndAnswer(turn);
      co_await exchange.Write(piece);
      if (!call.ready()) co_await exchange.Flush();
      reading = true;
      piece = co_await call.ReadPiece();
      reading = false;
      Observe(turn, piece);
      CheckEnd(turn, visit);
    }
    visit.End(reply.outcome);
    EndAnswer(turn);
    co_await exchange.Finish(piece);
  } catch (const Error& error) {
    if (!reading) throw;  // the client's side
    visit.End(Outcome::kFailed);
    turn.end = TurnEnd::kFailed;
    turn.failure = error.what();
    throw;  // cut off: it must not look complete
  }
}

void Proxy::BeginAnswer(Turn& turn, bool whole, net::ResponseHead* head) {
  turn.held.Release();
  turn.status = head->status;
  turn.first_byte_ms = SecondsSince(turn.arrived) * 1000;
  turn.streamed = lane::IsEventStream(*head);
  turn.version_start = VersionIn(*head, "Isthmus-Version-Start");
  turn.version_end = VersionIn(*head, "Isthmus-Version-End");
  BeginCollecting(turn);
  net::Headers& headers = head->headers;
  net::RemoveHopByHop(&headers);
  headers.Set("Isthmus-Request-Id", turn.id);
  headers.Set("Isthmus-Island", turn.island);
  if (turn.version_start == kNoVersion) return;  // no weights made it
  turn.lag_start = LagOf(turn.version_start, turn.newest_sent);
  headers.Set("Isthmus-Lag-Start", std::to_string(turn.lag_start));
  if (whole && turn.version_end != kNoVersion) {
    const uint64_t lag = LagOf(turn.version_end, Newest(turn));
    headers.Set("Isthmus-Lag-End", std::to_string(lag));
  }
}

void Proxy::BeginCollecting(Turn& turn) {
  const bool made_by_weights = turn.version_start != kNoVersion;
  if (options_.record && made_by_weights && turn.status / 100 == kSuccess) {
    turn.collector.emplace(
        turn.streamed ? RolloutCollector::Form::kEvents : RolloutCollector::Form::kOnePiece,
        ExpectedChoices(turn.body), options_.record_answer_bytes, collected_);
  }
  if (!turn.collector || !options_.record_requests) turn.body = {};
}

void Proxy::Observe(Turn& turn, std::string_view piece) {
  counters_.bytes_out += piece.size();
  if (turn.streamed) {
    const VersionNumber end = turn.ends.Feed(piece);
    if (end != kNoVersion) turn.version_end = end;
  }
  if (turn.collector) turn.collector->Feed(piece);
}

// Throws if the answer has come to a version that the request excludes: the rest of it is no use.
void Proxy::CheckEnd(Turn& turn, IslandVisit& visit) {
  if (!turn.streamed || turn.version_end == kNoVersion) return;
  std::string broken = ExcludedVersion(turn.request.constraint, turn.version_end, "came to be");
  if (broken.empty()) return;
  visit.End(Outcome::kBrokenPromise);
  turn.end = TurnEnd::kFailed;
  turn.failure = std::move(broken);
  turn.collector.reset();
  if (on_failure_) on_failure_(turn, visit.island(), Outcome::kBrokenPromise);
  Throw(ErrorCode::kCorrupt, "pass on an answer of island {}: {}", turn.island, turn.failure);
}

bool Proxy::IsOver(const Turn& turn, std::string_view piece) {
  if (!turn.streamed) return false;
  return turn.collector ? turn.collector->ended() : EndsStream(piece);
}

// All of it has come; the client may not have it yet, and may never get it. Again: nothing.
void Proxy::EndAnswer(Turn& turn) {
  if (std::exchange(turn.ended, true)) return;
  if (turn.version_end == kNoVersion) turn.version_end = turn.version_start;
  turn.lag_end = LagOf(turn.version_end, Newest(turn));
  turn.end = EndOf(turn.status);
  if (turn.request.pin_session && turn.version_start != kNoVersion) {
    pins_.Keep(turn.run_name, turn.request.session, turn.version_start);
  }
  if (turn.collector) turn.collector->End();
  RecordFinished(turn);
}

// Once: what comes after it is not collected.
void Proxy::RecordFinished(Turn& turn) {
  if (!turn.collector || !turn.collector->finished()) return;
  if (turn.version_end == kNoVersion) turn.version_end = turn.version_start;
  turn.lag_end = LagOf(turn.version_end, Newest(turn));
  if (on_rollout_) on_rollout_(turn);
  turn.collector.reset();
}

VersionNumber Proxy::Newest(const Turn& turn) const {
  return HasItsRun(turn) ? pool_.snapshot().runs[turn.run].newest : turn.newest_sent;
}

void Proxy::Finish(const Turn& turn) {
  ++counters_.ends[static_cast<size_t>(turn.end)];
  if (on_end_) on_end_(turn);
}

}  // namespace isthmus::gateway
