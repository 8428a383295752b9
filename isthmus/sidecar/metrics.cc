#include "isthmus/sidecar/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "isthmus/observe/follow.h"
#include "isthmus/sidecar/server_info.h"

namespace isthmus::sidecar {
namespace {

using observe::Follow;

using prometheus::Histogram;

// A switch takes from milliseconds (a small model) to minutes (a reload from disk).
const Histogram::BucketBoundaries kSeconds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                              1,     3,     10,   30,   100, 300};

struct NamedTime {
  const char* phase;
  double Update::*time_ms;
};

constexpr NamedTime kPhases[] = {
    {"fetch", &Update::fetch_ms},   {"apply", &Update::apply_ms},   {"check", &Update::check_ms},
    {"hold", &Update::hold_ms},     {"drain", &Update::drain_ms},   {"pause", &Update::pause_ms},
    {"load", &Update::load_ms},     {"flush", &Update::flush_ms},   {"verify", &Update::verify_ms},
    {"learn", &Update::learn_ms},   {"resume", &Update::resume_ms}, {"canary", &Update::canary_ms},
    {"closed", &Update::closed_ms}, {"paused", &Update::paused_ms}};

constexpr Phase kStates[] = {Phase::kBooting,   Phase::kCatchingUp, Phase::kReady,
                             Phase::kStaging,   Phase::kCommitting, Phase::kPoisoned,
                             Phase::kReseeding, Phase::kStopped};

struct NamedCount {
  const char* outcome;
  uint64_t ProxyCounters::*count;
};

constexpr NamedCount kOutcomes[] = {
    {"admitted", &ProxyCounters::admitted}, {"not_ready", &ProxyCounters::not_ready},
    {"revoked", &ProxyCounters::revoked},   {"unavailable", &ProxyCounters::unavailable},
    {"invalid", &ProxyCounters::invalid},   {"blocked", &ProxyCounters::blocked},
    {"expired", &ProxyCounters::expired},   {"aborted", &ProxyCounters::aborted},
    {"failed", &ProxyCounters::failed},     {"disconnected", &ProxyCounters::disconnected}};

}  // namespace

struct Metrics::Families {
  explicit Families(const std::string& run) : label({{"run", run}}) {}

  prometheus::Family<prometheus::Gauge>& Gauges(const std::string& name, const std::string& help) {
    return prometheus::BuildGauge()
        .Name("isthmus_sidecar_" + name)
        .Help(help)
        .Labels(label)
        .Register(registry);
  }
  prometheus::Gauge& Gauge(const std::string& name, const std::string& help) {
    return Gauges(name, help).Add({});
  }
  prometheus::Family<prometheus::Counter>& Counters(const std::string& name,
                                                    const std::string& help) {
    return prometheus::BuildCounter()
        .Name("isthmus_sidecar_" + name)
        .Help(help)
        .Labels(label)
        .Register(registry);
  }

  prometheus::Counter& CountOf(UpdateKind kind, const char* result) {
    return updates.Add({{"kind", std::string(UpdateKindName(kind))}, {"result", result}});
  }

  prometheus::Labels label;
  prometheus::Registry registry;
  prometheus::Gauge& ready = Gauge("ready", "1 while requests are admitted");
  prometheus::Family<prometheus::Gauge>& state =
      Gauges("state", "1 for the state that the island is in");
  prometheus::Gauge& served = Gauge("served_version", "The version served; 0: none");
  prometheus::Gauge& target = Gauge("target_version", "The version that should be served");
  prometheus::Gauge& head = Gauge("head_version", "The newest version in the log, as last read");
  prometheus::Gauge& lag = Gauge("lag_versions", "How many versions the served one is behind");
  prometheus::Gauge& board = Gauge("board_reachable", "1 if the log was last read well");
  prometheus::Gauge& waiting = Gauge("waiting_requests", "Requests that wait at the gate");
  prometheus::Gauge& in_flight = Gauge("in_flight_requests", "Requests admitted and not ended");
  prometheus::Gauge& connections = Gauge("client_connections", "Open connections of clients");
  prometheus::Family<prometheus::Counter>& requests =
      Counters("requests_total", "Rollout requests by what became of them");
  prometheus::Counter& crossed =
      Counters("crossed_requests_total", "Answers that began at one version and ended at another")
          .Add({});
  prometheus::Counter& without_salt =
      Counters("requests_without_salt_total", "Admitted without isolation of the engine's cache")
          .Add({});
  prometheus::Counter& lost_events =
      Counters("lost_events_total", "Events that the event log could not take").Add({});
  prometheus::Family<prometheus::Counter>& updates =
      Counters("updates_total", "Changes of the engines' version");
  prometheus::Counter& fetched =
      Counters("fetched_bytes_total", "Bytes fetched from the board").Add({});
  prometheus::Family<prometheus::Gauge>& version_bytes =
      Gauges("switch_version_bytes", "Bytes fetched for the last switch forward, for each version");
  prometheus::Family<Histogram>& phases = prometheus::BuildHistogram()
                                              .Name("isthmus_sidecar_update_seconds")
                                              .Help("Time of each phase of an update")
                                              .Labels(label)
                                              .Register(registry);
};

Metrics::Metrics(const std::string& run) : families_(std::make_unique<Families>(run)) {
  // From the start, for Prometheus does not see how a series came to its first value.
  for (const UpdateKind kind :
       {UpdateKind::kSwitch, UpdateKind::kBoot, UpdateKind::kReseed, UpdateKind::kAdoption}) {
    families_->CountOf(kind, "ok");
    families_->CountOf(kind, "failed");
  }
}
Metrics::~Metrics() = default;

void Metrics::Observe(const Update& update) {
  families_->CountOf(update.kind, update.error.empty() ? "ok" : "failed").Increment();
  families_->fetched.Increment(static_cast<double>(update.fetched_bytes));
  if (update.kind == UpdateKind::kSwitch && update.error.empty() && update.to > update.from) {
    families_->version_bytes.Add({}).Set(static_cast<double>(update.fetched_bytes) /
                                         static_cast<double>(update.to - update.from));
  }
  for (const NamedTime& time : kPhases) {
    families_->phases.Add({{"phase", time.phase}}, kSeconds).Observe(update.*time.time_ms / 1000);
  }
}

std::string Metrics::Expose(const Moment& moment) {
  Families& all = *families_;
  const Gate& gate = moment.gate;
  all.ready.Set(IsReady(gate) ? 1 : 0);
  for (const Phase phase : kStates) {
    all.state.Add({{"state", std::string(PhaseName(phase))}})
        .Set(phase == moment.report.phase ? 1 : 0);
  }
  all.served.Set(static_cast<double>(gate.served()));
  all.target.Set(static_cast<double>(moment.report.target));
  all.head.Set(static_cast<double>(moment.report.head));
  const uint64_t lag = gate.board().Lag(gate.served());
  all.lag.Set(lag == BoardView::kUnknownLag ? -1 : static_cast<double>(lag));
  all.board.Set(moment.report.board_error.empty() ? 1 : 0);
  all.waiting.Set(static_cast<double>(gate.waiting()));
  all.in_flight.Set(static_cast<double>(gate.in_flight()));
  all.connections.Set(static_cast<double>(moment.server.open));
  for (const NamedCount& entry : kOutcomes) {
    Follow(all.requests.Add({{"outcome", entry.outcome}}), moment.proxy.*entry.count);
  }
  Follow(all.crossed, moment.proxy.crossed);
  Follow(all.without_salt, moment.proxy.without_salt);
  Follow(all.lost_events, moment.lost_events);
  return prometheus::TextSerializer().Serialize(all.registry.Collect());
}

}  // namespace isthmus::sidecar
