#include "isthmus/gateway/gateway.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"

namespace isthmus::gateway {
namespace {

using net::Task;

// How late a TTL, a breaker or a slow start may be noticed.
constexpr net::Milliseconds kTick{50};
constexpr size_t kInstanceCharacters = 12;

// Short: it begins the ids of requests.
std::string NewInstance() { return RandomId().substr(0, kInstanceCharacters); }

GatewayOptions Completed(GatewayOptions options, const std::string& instance) {
  options.proxy.instance = instance;
  options.proxy.record = options.record.has_value();
  // A token for the gateway's own listener is nothing that islands should see.
  options.proxy.keep_authorization = !options.access.asks_for_tokens();
  options.server.tls = options.access.tls;
  options.server.limits.body_bytes = options.proxy.max_body_bytes;
  return options;
}

std::string_view PriorityName(Priority priority) {
  return priority == Priority::kTraining ? "training" : "evaluation";
}

Rollout RolloutOf(Turn& turn, const std::string& instance) {
  Rollout rollout;
  rollout.request_id = turn.id;
  const auto ago = MonotonicNow() - turn.arrived;
  rollout.arrived = SystemClock().Now() - std::chrono::duration_cast<WallTime::duration>(ago);
  rollout.gateway = instance;
  rollout.run = turn.run_name;
  rollout.session = turn.request.session;
  rollout.priority = PriorityName(turn.priority);
  rollout.island = turn.island;
  rollout.route = turn.path;
  rollout.traceparent = turn.head.headers.Find("traceparent").value_or("");
  rollout.status = turn.status;
  rollout.attempts = turn.attempts;
  rollout.version_start = turn.version_start;
  rollout.version_end = turn.version_end;
  rollout.lag_start = turn.lag_start;
  rollout.lag_end = turn.lag_end;
  rollout.queued_ms = turn.queued_ms;
  rollout.first_byte_ms = turn.first_byte_ms;
  rollout.total_ms = SecondsSince(turn.arrived) * 1000;
  rollout.streamed = turn.streamed;
  rollout.request = std::move(turn.body);
  rollout.answer = turn.collector->TakeAnswer();
  rollout.cut = turn.collector->cut();
  return rollout;
}

}  // namespace

Gateway::Gateway(net::Loop& loop, GatewayOptions options)
    : loop_(loop),
      instance_(NewInstance()),
      started_(SystemClock().Now()),
      options_(Completed(std::move(options), instance_)),
      events_(options_.event_log),
      accesses_(options_.access_log),
      pool_(options_.pool),
      proxy_(loop, options_.proxy, pool_),
      sources_(loop, options_.sources, events_),
      prober_(loop, options_.prober, pool_, [this] { Notice(); }),
      history_(instance_, started_, MonotonicNow()),
      access_(options_.access) {
  if (options_.record) {
    recorder_ = std::make_unique<Recorder>(loop, *options_.record, events_, instance_);
  }
  proxy_.set_on_end([this](const Turn& turn) { OnEnd(turn); });
  proxy_.set_on_rollout([this](Turn& turn) { recorder_->Record(RolloutOf(turn, instance_)); });
  proxy_.set_on_failure([this](const Turn& turn, uint32_t island, Outcome outcome) {
    OnFailure(turn, island, outcome);
  });
  prober_.set_token(options_.proxy.island_token);
  server_ = std::make_unique<net::Server>(
      loop, options_.server, [this](net::Exchange& exchange) { return Handle(exchange); });
}

Gateway::~Gateway() = default;

Task<void> Gateway::Run() {
  events_.Write("started", {{"gateway", instance_}, {"port", port()}});
  sources_.Start([this](const std::vector<ListedIsland>& islands) { List(islands); });
  prober_.Start();
  if (recorder_) net::asio::co_spawn(loop_.get_executor(), recorder_->Run(), net::asio::detached);
  co_await Watch();
  events_.Write("stopping", {});
  changed_.Ring();
  co_await server_->Drain(options_.drain);
  sources_.Stop();
  prober_.Stop();
  if (recorder_) co_await recorder_->Stop(options_.drain);
  events_.Write("stopped", {});
}

// What time changes.
Task<void> Gateway::Watch() {
  MonotonicTime sample = MonotonicNow();
  while (!terminating_) {
    co_await terminate_.Wait(kTick);
    const MonotonicTime now = MonotonicNow();
    pool_.Advance(now);
    Notice();
    if (now < sample) continue;
    sample = std::max(sample + History::kInterval, now);
    const GatewayLoad load = meter_.Take(proxy_.queue().in_flight(), proxy_.queue().queued());
    history_.Record(pool_.Facts(now), pool_.snapshot().runs, load, now);
  }
}

// Tells all who wait for islands, if these have changed.
void Gateway::Notice() {
  if (pool_.generation() == noticed_) return;
  noticed_ = pool_.generation();
  proxy_.OnPoolChanged();
  changed_.Ring();
}

void Gateway::List(const std::vector<ListedIsland>& islands) {
  for (const ListedIsland& twice : pool_.SetListed(islands, MonotonicNow())) {
    events_.Write("island_ignored", {{"island", twice.id},
                                     {"url", twice.url.Authority()},
                                     {"reason", "another one has this id"}});
  }
  Notice();
}

void Gateway::Terminate() {
  terminating_ = true;
  terminate_.Ring();
}

void Gateway::Reload() {
  try {
    access_.Reload();
    events_.Write("reloaded", {});
  } catch (const Error& error) {
    events_.Write("reload_failed", {{"error", error.what()}});
  }
}

void Gateway::OnEnd(const Turn& turn) {
  meter_.Observe(turn);
  metrics_.Observe(turn);
  if (turn.end == TurnEnd::kServed && turn.version_start != kNoVersion) {
    staleness_.Observe(turn.run_name, turn.request.session, turn.lag_start, turn.lag_end);
  }
  if (!options_.access_log.empty()) LogAccess(turn);
}

void Gateway::LogAccess(const Turn& turn) {
  accesses_.Write("request", {{"id", turn.id},
                              {"trace", turn.head.headers.Find("traceparent").value_or("")},
                              {"path", turn.path},
                              {"run", turn.run_name},
                              {"session", turn.request.session},
                              {"island", turn.island},
                              {"attempts", turn.attempts},
                              {"end", TurnEndName(turn.end)},
                              {"status", turn.status},
                              {"version_start", turn.version_start},
                              {"version_end", turn.version_end},
                              {"lag_start", turn.lag_start},
                              {"lag_end", turn.lag_end},
                              {"queued_ms", turn.queued_ms},
                              {"first_byte_ms", turn.first_byte_ms},
                              {"total_ms", SecondsSince(turn.arrived) * 1000}});
}

void Gateway::OnFailure(const Turn& turn, uint32_t island, Outcome outcome) {
  if (outcome == Outcome::kRefused) return;  // nobody's fault
  events_.Write(outcome == Outcome::kBrokenPromise ? "promise_broken" : "attempt_failed",
                {{"island", pool_.id(island)},
                 {"request", turn.id},
                 {"trace", turn.head.headers.Find("traceparent").value_or("")},
                 {"error", turn.failure}});
}

}  // namespace isthmus::gateway
