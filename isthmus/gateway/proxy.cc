#include "isthmus/gateway/proxy.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/gateway/hedge.h"
#include "isthmus/gateway/refusals.h"
#include "isthmus/lane/request_body.h"

namespace isthmus::gateway {
namespace {

using net::Milliseconds;
using net::Task;

// Answers up to here are read whole before their first byte goes to the client, so that an island
// that dies while it sends one costs nothing.
constexpr size_t kWholeBytes = size_t{1} << 20;
constexpr Milliseconds kDeadlineTick{20};
constexpr int kUnavailable = 503;

Milliseconds Left(MonotonicTime until) {
  return std::max(Milliseconds(0), std::chrono::ceil<Milliseconds>(until - MonotonicNow()));
}

double MillisecondsSince(MonotonicTime start) { return SecondsSince(start) * 1000; }

bool MayWait(const Turn& turn) { return turn.wait_until && MonotonicNow() < *turn.wait_until; }

// Nobody serves what it asks for, and that is the only reason.
bool IsNotReady(const Turn& turn, Verdict verdict) {
  if (verdict != Verdict::kRefuse && verdict != Verdict::kWait) return false;
  return turn.failure.empty() || (turn.refusal && turn.refusal->head.status == 409);
}

// Requests that islands have room for together.
uint64_t RoomOf(const Snapshot& snapshot) {
  uint64_t room = 0;
  for (const IslandView& island : snapshot.islands) {
    if (island.state > IslandState::kCommitting) continue;
    const double own = static_cast<double>(island.limit) * static_cast<double>(island.share);
    room += std::max<uint64_t>(1, static_cast<uint64_t>(own));
  }
  return room;
}

std::string AddressOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

}  // namespace

Proxy::Proxy(net::Loop& loop, ProxyOptions options, Pool& pool)
    : loop_(loop),
      options_(std::move(options)),
      pool_(pool),
      entrance_(loop, options_.room),
      client_(loop, options_.limits, options_.tls),
      held_(options_.max_held_bytes),
      collected_(options_.record_held_bytes),
      deadlines_(std::make_shared<net::DeadlineList>(loop, kDeadlineTick)),
      random_(std::random_device{}()) {}

Task<void> Proxy::Handle(net::Exchange& exchange) {
  Turn turn(held_);
  turn.arrived = MonotonicNow();
  const struct Ending {
    ~Ending() { proxy.Finish(turn); }
    Proxy& proxy;
    Turn& turn;
  } ending{*this, turn};
  const net::RequestHead& head = exchange.request();
  turn.route = lane::RouteOf(head.method, head.target);
  turn.path = head.target.substr(0, head.target.find('?'));
  if (turn.route.kind == lane::RouteKind::kBlocked) {
    lane::Answer answer = lane::RouteBlocked(head.method, head.target);
    co_return co_await Respond(exchange, turn, std::move(answer), TurnEnd::kBlocked);
  }
  if (co_await Read(exchange, turn)) co_await Serve(exchange, turn);
}

// False: the request was answered.
Task<bool> Proxy::Read(net::Exchange& exchange, Turn& turn) {
  std::optional<lane::Answer> full;
  try {
    turn.body = co_await exchange.ReadBody(options_.max_body_bytes, &turn.held);
  } catch (const net::HttpError& error) {
    turn.end = TurnEnd::kInvalid;
    if (error.status() != kUnavailable) throw;
    full = Overloaded("the bodies of requests that wait take all the memory that they may");
  }
  if (full) {
    co_await Respond(exchange, turn, std::move(*full), TurnEnd::kShed);
    co_return false;
  }
  counters_.bytes_in += turn.body.size();
  try {
    turn.client = options_.keep_authorization
                      ? AddressOf(exchange.peer())
                      : std::string(exchange.request().headers.Find("Authorization").value_or(""));
    turn.head = std::move(exchange.request());
    ReadFields(turn);
  } catch (const Error&) {
    turn.end = TurnEnd::kInvalid;
    throw;
  }
  co_return true;
}

// What body and headers ask, with the gateway's own limits, and the head for islands.
void Proxy::ReadFields(Turn& turn) {
  lane::HeaderFields fields = lane::ReadHeaders(turn.head.headers);
  if (turn.route.kind == lane::RouteKind::kGenerate) {
    const lane::RequestBody body(turn.body, "");
    turn.request = lane::Joined(body, fields);
  } else {
    turn.request.constraint.run = fields.request.constraint.run;
  }
  lane::Constraint& constraint = turn.request.constraint;
  if (options_.max_lag && turn.route.kind == lane::RouteKind::kGenerate) {
    constraint.max_lag_versions =
        std::min(*options_.max_lag, constraint.max_lag_versions.value_or(*options_.max_lag));
  }
  turn.priority = fields.priority;
  turn.id = fields.request_id.empty() ? fmt::format("{}-{}", options_.instance, ++next_id_)
                                      : std::move(fields.request_id);
  if (turn.request.wait_ms) turn.wait_until = turn.arrived + *turn.request.wait_ms;
  if (fields.deadline) turn.deadline = turn.arrived + *fields.deadline;
  PrepareHead(turn);
}

// What is the same for every island.
void Proxy::PrepareHead(Turn& turn) const {
  net::Headers& headers = turn.head.headers;
  net::RemoveHopByHop(&headers);
  for (const std::string_view name :
       {"Host", "Content-Length", "Isthmus-Wait-Ms", "Isthmus-Deadline-Ms", "Isthmus-Request-Id"}) {
    headers.Remove(name);
  }
  if (!options_.keep_authorization || !options_.island_token.empty()) {
    headers.Remove("Authorization");
  }
  if (!options_.island_token.empty()) {
    headers.Add("Authorization", "Bearer " + options_.island_token);
  }
  headers.Add("Isthmus-Request-Id", turn.id);
  const lane::Constraint& constraint = turn.request.constraint;
  if (options_.max_lag && constraint.max_lag_versions && !constraint.max_lag_ms) {
    headers.Set("Isthmus-Max-Lag", std::to_string(*constraint.max_lag_versions));
  }
}

// Within its deadline, whatever it waits for.
Task<void> Proxy::Serve(net::Exchange& exchange, Turn& turn) {
  net::Deadline deadline(deadlines_, [&] {
    turn.expired = true;
    exchange.CancelHandler();
  });
  if (turn.deadline) deadline.Arm(std::max(Milliseconds(1), Left(*turn.deadline)));
  try {
    co_return co_await Enter(exchange, turn);
  } catch (const boost::system::system_error&) {
    if (exchange.disconnected() || !turn.expired) throw;
  }
  co_await net::asio::this_coro::reset_cancellation_state();
  turn.end = TurnEnd::kDeadline;
  if (exchange.started()) Throw(ErrorCode::kUnavailable, "pass on an answer: its deadline passed");
  lane::Answer answer = lane::DeadlineExceeded("the request's deadline passed");
  co_await Respond(exchange, turn, std::move(answer), TurnEnd::kDeadline);
}

Task<void> Proxy::Enter(net::Exchange& exchange, Turn& turn) {
  const Entrance::Arrival arrival = entrance_.Arrive(turn.client, turn.priority);
  bool in = arrival.entry == Entry::kIn;
  if (arrival.entry == Entry::kQueued) {
    in = co_await entrance_.LetIn(arrival.pass, options_.queue_limit);
  }
  turn.queued_ms = MillisecondsSince(turn.arrived);
  if (in) co_return co_await Place(exchange, turn);
  lane::Answer answer = Overloaded(arrival.entry == Entry::kShed
                                       ? "as many requests wait as may"
                                       : "no room within the time that a request may queue");
  co_await Respond(exchange, turn, std::move(answer), TurnEnd::kShed);
}

// Asks one island after another until one has answered, or none is left to ask or to wait for.
Task<void> Proxy::Place(net::Exchange& exchange, Turn& turn) {
  for (;;) {
    const std::optional<std::string> ambiguous = FindRun(turn);
    if (ambiguous) {
      turn.end = TurnEnd::kInvalid;
      Throw(ErrorCode::kInvalid, "{}", *ambiguous);
    }
    if (turn.run != kNoRun) turn.run_name = pool_.snapshot().runs[turn.run].name;
    if (!Pin(turn)) co_return co_await RefusePin(exchange, turn);
    const Choice choice = Choose(turn);
    const bool send = choice.verdict == Verdict::kSend || choice.verdict == Verdict::kSendEarly;
    if (send && turn.attempts < options_.attempts) {
      if (co_await TryIsland(exchange, turn, choice)) co_return;
    } else if (send || !co_await AwaitChange(turn, choice.verdict)) {
      co_return co_await Refuse(exchange, turn, choice);
    }
  }
}

// Sets the place of its run; what is wrong if nobody can say which run is meant.
std::optional<std::string> Proxy::FindRun(Turn& turn) const {
  const std::string& named =
      turn.request.constraint.run.empty() ? options_.run : turn.request.constraint.run;
  turn.run = kNoRun;
  if (!named.empty()) {
    turn.run = pool_.FindRun(named).value_or(kNoRun);
    return std::nullopt;
  }
  const std::vector<RunView>& runs = pool_.snapshot().runs;
  for (uint32_t i = 0; i < runs.size(); ++i) {
    if (runs[i].name.empty()) continue;
    if (turn.run != kNoRun) {
      return fmt::format("run: not given, and the fleet has several ({}, {})", runs[turn.run].name,
                         runs[i].name);
    }
    turn.run = i;
  }
  return std::nullopt;
}

// A pinned session asks for its version. False if the request's own fields exclude it.
bool Proxy::Pin(Turn& turn) {
  if (!turn.request.pin_session || turn.pin != kNoVersion || turn.run == kNoRun) return true;
  turn.pin = pins_.Find(turn.run_name, turn.request.session);
  if (turn.pin == kNoVersion) return true;
  lane::Constraint& constraint = turn.request.constraint;
  if (constraint.exact_version.value_or(turn.pin) != turn.pin) return false;
  if (constraint.min_version.value_or(0) > turn.pin) return false;
  if (!constraint.exact_version) {
    turn.head.headers.Set("Isthmus-Exact-Version", std::to_string(turn.pin));
  }
  constraint.exact_version = turn.pin;
  return true;
}

// While an island was asked its place may have become another run's.
bool Proxy::HasItsRun(const Turn& turn) const {
  const std::vector<RunView>& runs = pool_.snapshot().runs;
  return turn.run < runs.size() && runs[turn.run].name == turn.run_name;
}

Choice Proxy::Choose(Turn& turn) {
  // Islands that refused may have changed their mind once any island has reported.
  if (MayWait(turn) && !turn.tried.empty() && pool_.generation() != turn.tried_at) {
    turn.tried.clear();
  }
  if (!HasItsRun(turn)) return {};
  Ask ask;
  ask.run = turn.run;
  ask.constraint = &turn.request.constraint;
  ask.session = turn.request.session;
  ask.tried = turn.tried;
  ask.may_wait = MayWait(turn);
  return ChooseIsland(ask, pool_.snapshot(), random_());
}

// Waits until islands may have changed. False: there is nothing to wait for, or no time left.
Task<bool> Proxy::AwaitChange(Turn& turn, Verdict verdict) {
  std::optional<MonotonicTime> until = turn.wait_until;
  // For room, and for a switch that is under way; the latter not if the request waits for nothing.
  const bool short_wait = verdict == Verdict::kQueue || (verdict == Verdict::kWait && !until);
  if (short_wait) until = turn.arrived + options_.queue_limit;
  if (!until || Left(*until) == Milliseconds(0)) co_return false;
  const struct Waiting {
    Waiting(Proxy& p, uint64_t& c) : proxy(p), count(c) {
      ++count;
      proxy.FitRoom();
    }
    ~Waiting() {
      --count;
      proxy.FitRoom();
    }
    Proxy& proxy;
    uint64_t& count;
  } counted(*this, verdict == Verdict::kQueue ? queued_ : waiting_);
  net::Bell& bell = verdict == Verdict::kQueue ? room_ : changed_;
  co_await bell.Wait(Left(*until));
  co_return true;
}

void Proxy::OnPoolChanged() {
  fleet_room_ = RoomOf(pool_.snapshot());
  FitRoom();
  changed_.Ring();
  if (queued_ > 0) room_.Ring();
}

// No more are let in than islands have room for, so that those who queue do so where clients take
// turns. Who waits for a version takes no room. Without islands nobody queues for them.
void Proxy::FitRoom() {
  const size_t room = fleet_room_ == 0 ? options_.room.in_flight : fleet_room_ + waiting_;
  entrance_.set_in_flight_limit(std::min(room, options_.room.in_flight));
}

// True: it was answered.
Task<bool> Proxy::TryIsland(net::Exchange& exchange, Turn& turn, const Choice& choice) {
  const bool hedges = options_.hedge_after.count() > 0 && choice.alternatives &&
                      choice.verdict == Verdict::kSend &&
                      turn.route.kind == lane::RouteKind::kGenerate;
  if (hedges) co_return co_await TryTwo(exchange, turn, choice);
  ++turn.attempts;
  const net::Origin url = pool_.url(choice.island);  // a copy: the pool may change meanwhile
  const Question question = QuestionOf(turn);
  turn.newest_sent = Newest(turn);
  IslandVisit visit(pool_, choice.island);
  net::RequestHead head = HeadFor(turn, choice);
  Reply reply = co_await AskIsland(client_, url, question, std::move(head), kWholeBytes);
  ++counters_.attempts[static_cast<size_t>(reply.outcome)];
  const bool answered = reply.failure.empty();
  if (answered) {
    turn.island = pool_.id(choice.island);
    co_await PassOn(exchange, turn, reply, visit);
  } else {
    visit.End(reply.outcome);
    TakeFailure(turn, choice.island, reply);
  }
  if (queued_ > 0) room_.Ring();
  co_return answered;
}

// Another one than the first, which has not failed and is not to be remembered as tried.
Choice Proxy::ChooseSecond(Turn& turn, uint32_t first) {
  std::vector<uint32_t> tried = turn.tried;
  const uint64_t tried_at = turn.tried_at;
  turn.tried.push_back(first);
  turn.tried_at = pool_.generation();  // else Choose may forget them all
  const Choice second = Choose(turn);
  turn.tried = std::move(tried);
  turn.tried_at = tried_at;
  return second;
}

// As TryIsland, with a second island if the first is slow. The slower one is called off.
Task<bool> Proxy::TryTwo(net::Exchange& exchange, Turn& turn, const Choice& choice) {
  Hedge hedge(loop_, client_, pool_, turn.body, kWholeBytes);
  turn.newest_sent = Newest(turn);
  ++turn.attempts;
  hedge.Begin(choice.island, QuestionOf(turn), HeadFor(turn, choice));
  Hedge::Attempt* ended = co_await hedge.Next(options_.hedge_after);
  if (ended == nullptr && turn.attempts < options_.attempts) {
    const Choice second = ChooseSecond(turn, choice.island);
    if (second.verdict == Verdict::kSend) {
      ++turn.attempts;
      ++counters_.hedged;
      hedge.Begin(second.island, QuestionOf(turn), HeadFor(turn, second));
    }
  }
  while (ended == nullptr || !ended->reply->failure.empty()) {
    if (ended != nullptr) {
      ++counters_.attempts[static_cast<size_t>(ended->reply->outcome)];
      ended->visit.End(ended->reply->outcome);
      TakeFailure(turn, ended->visit.island(), *ended->reply);
    }
    ended = co_await hedge.Next(net::kUntilRung);
    if (ended == nullptr) co_return false;
  }
  ++counters_.attempts[static_cast<size_t>(ended->reply->outcome)];
  turn.island = pool_.id(ended->visit.island());
  hedge.KeepOnly(*ended);
  co_await PassOn(exchange, turn, *ended->reply, ended->visit);
  co_return true;
}

// Another island is to be asked, if there is one.
void Proxy::TakeFailure(Turn& turn, uint32_t island, Reply& reply) {
  if (turn.tried.empty()) turn.tried_at = pool_.generation();
  turn.tried.push_back(island);
  turn.failure = std::move(reply.failure);
  if (reply.outcome == Outcome::kRefused) {
    turn.refusal = lane::Answer{std::move(reply.call->head()), std::move(reply.begun)};
  }
  if (on_failure_) on_failure_(turn, island, reply.outcome);
}

// What it asks of islands. Of the turn's body there is a view.
Question Proxy::QuestionOf(const Turn& turn) const {
  return {turn.route.kind == lane::RouteKind::kGenerate, turn.deadline.has_value(),
          turn.request.constraint, turn.run_name, turn.body};
}

net::RequestHead Proxy::HeadFor(const Turn& turn, const Choice& choice) const {
  net::RequestHead head = turn.head;
  if (choice.alternatives) {
    head.headers.Add("Isthmus-Wait-Ms", "0");
  } else if (turn.wait_until) {
    head.headers.Add("Isthmus-Wait-Ms", std::to_string(Left(*turn.wait_until).count()));
  }
  if (turn.deadline) {
    const auto left = std::max(Milliseconds(1), Left(*turn.deadline));
    head.headers.Add("Isthmus-Deadline-Ms", std::to_string(left.count()));
  }
  return head;
}

Task<void> Proxy::Respond(net::Exchange& exchange, Turn& turn, lane::Answer answer, TurnEnd end) {
  turn.end = end;
  turn.status = answer.head.status;
  if (!turn.id.empty()) answer.head.headers.Set("Isthmus-Request-Id", turn.id);
  co_await exchange.Respond(std::move(answer.head), answer.body);
}

Task<void> Proxy::RefusePin(net::Exchange& exchange, Turn& turn) {
  const lane::Decision decision{0, lane::Outcome::kNotReady, lane::Reason::kSessionPin, turn.pin};
  lane::Answer answer = lane::RefusalOf(decision, turn.request.constraint);
  co_await Respond(exchange, turn, std::move(answer), TurnEnd::kNotReady);
}

Task<void> Proxy::Refuse(net::Exchange& exchange, Turn& turn, const Choice& choice) {
  lane::Answer answer;
  TurnEnd end = TurnEnd::kUnavailable;
  if (choice.verdict == Verdict::kQueue) {
    answer = Overloaded("the islands that satisfy the request have no room");
    end = TurnEnd::kShed;
  } else if (IsNotReady(turn, choice.verdict)) {
    answer = NotReady(turn.request.constraint, choice.newest);
    end = TurnEnd::kNotReady;
  } else if (turn.refusal) {
    answer = std::move(*turn.refusal);
    net::RemoveHopByHop(&answer.head.headers);
    answer.head.headers.Remove("Content-Length");
    if (answer.head.status == 409) end = TurnEnd::kNotReady;
  } else {
    answer = lane::EngineUnavailable(turn.failure.empty() ? "the fleet has no island that serves"
                                                          : turn.failure);
  }
  co_await Respond(exchange, turn, std::move(answer), end);
}

}  // namespace isthmus::gateway
