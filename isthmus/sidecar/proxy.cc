#include "isthmus/sidecar/proxy.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <functional>
#include <optional>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/lane/answer_head.h"
#include "isthmus/lane/request_body.h"
#include "isthmus/sidecar/cache_salt.h"
#include "isthmus/sidecar/turn.h"

namespace isthmus::sidecar {
namespace {

using lane::EngineUnavailable;
using lane::HeaderFields;
using lane::RemoveIsthmusFields;
using lane::RequestBody;
using lane::RouteKind;
using net::Task;

constexpr std::string_view kExpired =
    "the time that the request gave (Isthmus-Deadline-Ms) is over";
constexpr int kServerError = 500;
constexpr int kUnavailable = 503;
constexpr size_t kMaxUpstreamBodyBytes = size_t{16} << 20;  // of what is only passed on
// Copying so much costs less than one more system call and packet, which take about 6 us.
constexpr size_t kJoinedBytes = size_t{16} << 10;

// A stamped answer is at least four pieces; a small one leaves as one.
Task<void> WritePieces(net::Exchange& exchange, const AnswerStamp::Pieces& pieces, bool last) {
  size_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += piece.size();
  if (bytes > kJoinedBytes) {
    for (const std::string_view piece : pieces) co_await exchange.Write(piece);
    if (last) co_await exchange.Finish();
    co_return;
  }
  std::string joined;
  joined.reserve(bytes);
  for (const std::string_view piece : pieces) joined.append(piece);
  if (last) co_return co_await exchange.Finish(joined);
  co_await exchange.Write(joined);
}

}  // namespace

Proxy::Proxy(net::Loop& loop, ProxyOptions options, GateKeeper& keeper, Presence& presence,
             std::vector<net::Origin> upstreams)
    : options_(std::move(options)),
      keeper_(keeper),
      presence_(presence),
      client_(loop, options_.limits, options_.tls),
      held_(options_.max_held_bytes) {
  for (net::Origin& origin : upstreams) upstreams_.push_back({std::move(origin)});
  if (upstreams_.empty()) {
    Throw(ErrorCode::kInvalid, "read --engine: none of them takes requests; name --upstream");
  }
}

Task<void> Proxy::Handle(net::Exchange& exchange) {
  const net::RequestHead& head = exchange.request();
  const Route route = lane::RouteOf(head.method, head.target);
  switch (route.kind) {
    case RouteKind::kGenerate:
      return Generate(exchange, route);
    case RouteKind::kInform:
      return Inform(exchange);
    case RouteKind::kBlocked:
      break;
  }
  ++counters_.blocked;
  return Refuse(exchange, lane::RouteBlocked(head.method, head.target));
}

Task<void> Proxy::Generate(net::Exchange& exchange, Route route) {
  const MonotonicTime arrived = MonotonicNow();
  net::ByteBudget::Share share(held_);
  std::string text;
  std::optional<Answer> full;
  try {
    text = co_await exchange.ReadBody(options_.max_body_bytes, &share);
  } catch (const net::HttpError& error) {
    if (error.status() != kUnavailable) throw;
    full = EngineUnavailable(error.what());
  }
  if (full) {
    ++counters_.unavailable;
    co_return co_await Refuse(exchange, std::move(*full));
  }
  std::optional<RequestBody> body;
  std::optional<HeaderFields> headers;
  Request request;
  try {
    headers = lane::ReadHeaders(exchange.request().headers);
    body.emplace(text, salt_field_);
    request = lane::Joined(*body, *headers);
  } catch (const Error& error) {
    ++counters_.invalid;
    throw;
  }
  TimeLimit limit(exchange);
  if (headers->deadline) {
    const auto executor = co_await net::asio::this_coro::executor;
    limit.Arm(executor, arrived + *headers->deadline);
  }
  std::optional<Admission> admission;
  try {
    Admission decided = co_await keeper_.Admit(request);
    admission.emplace(std::move(decided));
  } catch (const boost::system::system_error&) {
    if (exchange.disconnected() || !limit.expired()) throw;
  }
  if (!admission) {
    co_await net::asio::this_coro::reset_cancellation_state();
    co_return co_await Expire(exchange, headers->request_id);
  }
  if (!admission->admitted()) {
    limit.Disarm();
    const Decision& decision = admission->decision();
    ++(decision.outcome == Outcome::kNotReady  ? counters_.not_ready
       : decision.outcome == Outcome::kRevoked ? counters_.revoked
                                               : counters_.unavailable);
    Answer answer = lane::RefusalOf(decision, request.constraint);
    co_return co_await Refuse(exchange, std::move(answer), headers->request_id);
  }
  ++counters_.admitted;
  if (salt_field_.empty()) ++counters_.without_salt;
  Turn turn{std::move(*admission), route,           options_.run,
            headers->spans,        request.session, std::move(share),
            headers->request_id,   &limit,          {}};
  turn.body = body->Edited(SaltFor(turn.admission.decision().version, body->user_salt()));
  body.reset();
  text = {};
  co_await Serve(exchange, turn);
}

// Its time was over while it waited. The caller is no longer cancelled.
Task<void> Proxy::Expire(net::Exchange& exchange, const std::string& request_id) {
  ++counters_.expired;
  Answer answer = lane::DeadlineExceeded(kExpired);
  co_await Refuse(exchange, std::move(answer), request_id);
}

// Forwards, unless the gate or the request's own time ends it: then the client learns it in the way
// that is left.
Task<void> Proxy::Serve(net::Exchange& exchange, Turn& turn) {
  turn.admission.OnAbort([&exchange] { exchange.CancelHandler(); });
  std::optional<Error> failure;
  try {
    co_await Forward(exchange, turn);
    const Stamp stamp = turn.admission.stamp();
    if (stamp.start != stamp.end) ++counters_.crossed;
    co_return;
  } catch (const Error& error) {
    failure = error;
    ++counters_.failed;
    if (on_failure_) on_failure_();
  } catch (const boost::system::system_error&) {
    if (exchange.disconnected()) ++counters_.disconnected;
    if (exchange.disconnected()) throw;
    if (!turn.admission.aborted() && !turn.limit->expired()) throw;
    ++(turn.limit->expired() ? counters_.expired : counters_.aborted);
  }
  turn.admission.Finish();
  turn.limit->Disarm();
  const bool cancelled = turn.admission.aborted() || turn.limit->expired();
  if (cancelled && !exchange.disconnected()) {
    co_await net::asio::this_coro::reset_cancellation_state();
  }
  if (!failure && turn.limit->expired()) {
    if (exchange.started()) throw Error(ErrorCode::kUnavailable, std::string(kExpired));
    Answer answer = lane::DeadlineExceeded(kExpired);
    co_return co_await Refuse(exchange, std::move(answer), turn.request_id);
  }
  if (!failure) {
    failure.emplace(ErrorCode::kUnavailable, "the island ended this request to switch versions");
  }
  if (exchange.started()) throw Error(*failure);  // cut off: it must not look complete
  Answer answer = EngineUnavailable(failure->what());
  co_await Refuse(exchange, std::move(answer), turn.request_id);
}

Task<void> Proxy::Forward(net::Exchange& exchange, Turn& turn) {
  Upstream& upstream = Choose(turn.session);
  const struct Busy {
    explicit Busy(size_t& c) : count(c) { ++count; }
    ~Busy() { --count; }
    size_t& count;
  } busy(upstream.in_flight);
  net::Call call = co_await client_.Send(upstream.origin, HeadFor(std::move(exchange.request())),
                                         turn.body, net::Replay::kNever);
  turn.body = {};  // an engine that answers has read it
  turn.held.Release();
  // Before the admission ends: if the engine is another one, the gate ends this request.
  if (!presence_.proven()) co_await presence_.UntilProven();
  net::ResponseHead head = std::move(call.head());
  if (head.status >= kServerError && on_failure_) on_failure_();
  net::RemoveHopByHop(&head.headers);
  RemoveIsthmusFields(&head.headers);
  AddRequestId(turn.request_id, &head.headers);
  if (lane::IsEventStream(head)) {
    co_await PassEvents(exchange, call, std::move(head), turn);
  } else {
    co_await PassJson(exchange, call, std::move(head), turn);
  }
}

// An answer in one piece, if it is JSON: the engine has generated all of it when its head is there.
Task<void> Proxy::PassJson(net::Exchange& exchange, net::Call& call, net::ResponseHead head,
                           Turn& turn) {
  if (!lane::IsJson(head)) {  // may be streamed, in a form that is not known here
    AddStampFields(turn.run, turn.admission.stamp(), false, &head.headers);
    co_return co_await PassOn(exchange, call, std::move(head));
  }
  turn.admission.Finish();
  const Stamp stamp = turn.admission.stamp();
  AddStampFields(turn.run, stamp, true, &head.headers);
  if (call.done()) co_return co_await PassOn(exchange, call, std::move(head));
  JsonAnswer answer(turn.route, stamp, turn.spans, head);
  AnswerStamp::Pieces pieces;
  std::string_view piece = co_await call.ReadPiece();
  answer.Feed(piece, call.done(), &pieces);
  exchange.Start(answer.HeadFor(std::move(head)));
  for (;;) {
    co_await WritePieces(exchange, pieces, call.done());
    if (call.done()) co_return;
    if (!call.ready()) co_await exchange.Flush();
    pieces.clear();
    piece = co_await call.ReadPiece();
    answer.Feed(piece, call.done(), &pieces);
  }
}

// Events: each leaves when it came, with the versions up to then.
Task<void> Proxy::PassEvents(net::Exchange& exchange, net::Call& call, net::ResponseHead head,
                             Turn& turn) {
  head.headers.Remove("Content-Length");  // events become longer
  AddStampFields(turn.run, turn.admission.stamp(), false, &head.headers);
  exchange.Start(std::move(head));
  EventAnswer answer(turn.route, turn.admission, turn.spans);
  std::string out;
  while (!call.done()) {
    if (!call.ready()) co_await exchange.Flush();
    const std::string_view piece = co_await call.ReadPiece();
    out.clear();
    answer.Feed(piece, &out);
    if (call.done()) {
      turn.admission.Finish();
      answer.Finish(&out);
      co_return co_await exchange.Finish(out);
    }
    co_await exchange.Write(out);
  }
  turn.admission.Finish();
  co_await exchange.Finish();
}

Task<void> Proxy::PassOn(net::Exchange& exchange, net::Call& call, net::ResponseHead head) {
  exchange.Start(std::move(head));
  while (!call.done()) {
    if (!call.ready()) co_await exchange.Flush();
    const std::string_view piece = co_await call.ReadPiece();
    if (call.done()) co_return co_await exchange.Finish(piece);
    co_await exchange.Write(piece);
  }
  co_await exchange.Finish();
}

// What no weights decide needs no admission.
Task<void> Proxy::Inform(net::Exchange& exchange) {
  const std::string body = co_await exchange.ReadBody(kMaxUpstreamBodyBytes);
  std::optional<Error> failure;
  try {
    net::Call call =
        co_await client_.Send(Choose({}).origin, HeadFor(std::move(exchange.request())), body,
                              net::Replay::kIfIdempotent);
    net::ResponseHead head = std::move(call.head());
    net::RemoveHopByHop(&head.headers);
    RemoveIsthmusFields(&head.headers);
    co_return co_await PassOn(exchange, call, std::move(head));
  } catch (const Error& error) {
    failure = error;
  }
  if (exchange.started()) throw Error(*failure);
  Answer answer = EngineUnavailable(failure->what());
  co_await Refuse(exchange, std::move(answer));
}

Task<void> Proxy::Refuse(net::Exchange& exchange, Answer answer, const std::string& request_id) {
  AddRequestId(request_id, &answer.head.headers);
  co_await exchange.Respond(std::move(answer.head), answer.body);
}

net::RequestHead Proxy::HeadFor(net::RequestHead head) const {
  net::RemoveHopByHop(&head.headers);
  RemoveIsthmusFields(&head.headers);
  head.headers.Remove("Host");
  head.headers.Remove("Content-Length");
  head.headers.Remove("Accept-Encoding");  // a compressed answer cannot be stamped
  if (!options_.keep_authorization || !options_.engine_token.empty()) {
    head.headers.Remove("Authorization");
  }
  if (!options_.engine_token.empty()) {
    head.headers.Add("Authorization", "Bearer " + options_.engine_token);
  }
  return head;
}

// Hardly any request has a salt of its own, and digests were 3 % of a small one's CPU time.
std::string Proxy::SaltFor(VersionNumber version, const std::optional<std::string>& user_salt) {
  if (user_salt) return MakeCacheSalt(options_.run, version, user_salt);
  if (version != plain_salt_version_) {
    plain_salt_ = MakeCacheSalt(options_.run, version, user_salt);
    plain_salt_version_ = version;
  }
  return plain_salt_;
}

// By rendezvous hashing a session keeps its engine, and with it its cached prefix.
Proxy::Upstream& Proxy::Choose(const std::string& session) {
  if (session.empty()) return *std::ranges::min_element(upstreams_, {}, &Upstream::in_flight);
  return *std::ranges::max_element(upstreams_, {}, [&](const Upstream& upstream) {
    return std::hash<std::string>()(session + " " + upstream.origin.Authority());
  });
}

}  // namespace isthmus::sidecar
