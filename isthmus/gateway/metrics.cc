#include "isthmus/gateway/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "isthmus/observe/follow.h"

namespace isthmus::gateway {
namespace {

using observe::Follow;

using prometheus::ClientMetric;
using prometheus::MetricFamily;

// From what a gateway adds to what a rollout takes.
const prometheus::Histogram::BucketBoundaries kSeconds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1,
                                                          3,     10,    30,   100,  300, 1000};

constexpr std::string_view kOutcomeNames[kOutcomes] = {"served", "refused", "failed",
                                                       "broken_promise", "abandoned"};
constexpr IslandState kStates[] = {IslandState::kReady,      IslandState::kStaging,
                                   IslandState::kCommitting, IslandState::kDraining,
                                   IslandState::kSuspect,    IslandState::kGone};

double Number(uint64_t value) { return static_cast<double>(value); }

// Lags are counted by Staleness, which also takes some back.
ClientMetric LagMetric(const std::string& run, std::string_view at, const LagHistogram& lags) {
  ClientMetric metric;
  metric.label = {{"run", run}};
  if (!at.empty()) metric.label.push_back({"at", std::string(at)});
  uint64_t count = 0;
  for (size_t i = 0; i < lags.kBounds.size(); ++i) {
    count += lags.counts[i];
    metric.histogram.bucket.push_back({count, Number(lags.kBounds[i])});
  }
  metric.histogram.sample_count = count + lags.counts.back();
  metric.histogram.sample_sum = Number(lags.sum);
  metric.histogram.bucket.push_back(
      {metric.histogram.sample_count, std::numeric_limits<double>::infinity()});
  return metric;
}

std::vector<MetricFamily> LagFamilies(const Staleness& staleness) {
  MetricFamily answers{"isthmus_gateway_lag_versions",
                       "Versions that answers were behind the newest, at admission and at the end",
                       prometheus::MetricType::Histogram,
                       {}};
  MetricFamily sessions{"isthmus_gateway_session_lag_versions",
                        "Sessions that are remembered, by the largest lag of their answers",
                        prometheus::MetricType::Histogram,
                        {}};
  for (const auto& [run, lags] : staleness.runs()) {
    answers.metric.push_back(LagMetric(run, "start", lags.start));
    answers.metric.push_back(LagMetric(run, "end", lags.end));
    sessions.metric.push_back(LagMetric(run, "", lags.sessions));
  }
  return {std::move(answers), std::move(sessions)};
}

MetricFamily GaugeFamily(std::string name, std::string help) {
  return {"isthmus_gateway_" + std::move(name), std::move(help), prometheus::MetricType::Gauge, {}};
}

void AddGauge(std::vector<ClientMetric::Label> labels, uint64_t value, MetricFamily* family) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = Number(value);
  family->metric.push_back(std::move(metric));
}

// Made anew at each scrape: runs and versions that nobody serves any more leave no series behind.
std::vector<MetricFamily> FleetFamilies(const Snapshot& snapshot) {
  MetricFamily newest = GaugeFamily("newest_version", "The newest version that islands know of");
  MetricFamily islands = GaugeFamily("islands", "Islands by state");
  MetricFamily versions = GaugeFamily("version_islands", "Islands that serve a version");
  for (uint32_t run = 0; run < snapshot.runs.size(); ++run) {
    const std::string& name = snapshot.runs[run].name;
    if (name.empty()) continue;
    std::map<IslandState, uint64_t> states;
    std::map<VersionNumber, uint64_t> served;
    for (const IslandView& island : snapshot.islands) {
      if (island.run != run) continue;
      ++states[island.state];
      const bool serves = island.state <= IslandState::kCommitting && island.served != kNoVersion;
      if (serves) ++served[island.served];
    }
    AddGauge({{"run", name}}, snapshot.runs[run].newest, &newest);
    for (const IslandState state : kStates) {
      AddGauge({{"run", name}, {"state", std::string(IslandStateName(state))}}, states[state],
               &islands);
    }
    for (const auto& [version, count] : served) {
      AddGauge({{"run", name}, {"version", std::to_string(version)}}, count, &versions);
    }
  }
  return {std::move(newest), std::move(islands), std::move(versions)};
}

}  // namespace

struct Metrics::Families {
  prometheus::Gauge& Gauge(const std::string& name, const std::string& help) {
    return prometheus::BuildGauge()
        .Name("isthmus_gateway_" + name)
        .Help(help)
        .Register(registry)
        .Add({});
  }
  prometheus::Family<prometheus::Counter>& Counters(const std::string& name,
                                                    const std::string& help) {
    return prometheus::BuildCounter().Name("isthmus_gateway_" + name).Help(help).Register(registry);
  }
  prometheus::Histogram& Seconds(const std::string& name, const std::string& help) {
    return prometheus::BuildHistogram()
        .Name("isthmus_gateway_" + name)
        .Help(help)
        .Register(registry)
        .Add({}, kSeconds);
  }

  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests =
      Counters("requests_total", "Rollout requests by what became of them");
  prometheus::Family<prometheus::Counter>& attempts =
      Counters("attempts_total", "Requests sent to islands by what became of them");
  prometheus::Family<prometheus::Counter>& registrations =
      Counters("registrations_total", "Registrations and heartbeats of islands");
  prometheus::Counter& hedged =
      Counters("hedged_requests_total", "Requests for which a second island was asked").Add({});
  prometheus::Counter& bytes_in =
      Counters("request_bytes_total", "Bytes of requests' bodies").Add({});
  prometheus::Counter& bytes_out =
      Counters("answer_bytes_total", "Bytes of islands' answers' bodies").Add({});
  prometheus::Counter& recorded =
      Counters("rollouts_recorded_total", "Rollouts written to the log").Add({});
  prometheus::Counter& unrecorded =
      Counters("rollouts_refused_total", "Rollouts that the log could not take").Add({});
  prometheus::Counter& uploads =
      Counters("rollout_segments_total", "Segments of the log that the store has").Add({});
  prometheus::Counter& upload_failures =
      Counters("rollout_upload_failures_total", "Uploads of segments that failed").Add({});
  prometheus::Counter& lost_events =
      Counters("lost_events_total", "Events that the event log could not take").Add({});
  prometheus::Gauge& spool = Gauge("spool_bytes", "Rollouts that wait for their store");
  prometheus::Gauge& in_flight = Gauge("in_flight", "Requests that were let in and have not ended");
  prometheus::Gauge& queued = Gauge("queued", "Requests that wait for room");
  prometheus::Gauge& waiting = Gauge("waiting_for_version", "Requests that wait for a version");
  prometheus::Gauge& connections = Gauge("client_connections", "Open connections of clients");
  prometheus::Histogram& first_byte =
      Seconds("first_byte_seconds", "From a request's arrival to its answer's first byte");
  prometheus::Histogram& whole = Seconds("request_seconds", "From a request's arrival to its end");
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::Observe(const Turn& turn) {
  if (turn.end != TurnEnd::kServed) return;
  families_->first_byte.Observe(turn.first_byte_ms / 1000);
  families_->whole.Observe(SecondsSince(turn.arrived));
}

std::string Metrics::Expose(const Moment& moment) {
  Families& all = *families_;
  const ProxyCounters& proxy = moment.proxy.counters();
  for (size_t i = 0; i < kTurnEnds; ++i) {
    const std::string end(TurnEndName(static_cast<TurnEnd>(i)));
    Follow(all.requests.Add({{"outcome", end}}), proxy.ends[i]);
  }
  for (size_t i = 0; i < kOutcomes; ++i) {
    Follow(all.attempts.Add({{"result", std::string(kOutcomeNames[i])}}), proxy.attempts[i]);
  }
  Follow(all.registrations.Add({{"result", "accepted"}}), moment.registrations.accepted);
  Follow(all.registrations.Add({{"result", "conflict"}}), moment.registrations.conflicts);
  Follow(all.registrations.Add({{"result", "refused"}}), moment.registrations.refused);
  Follow(all.hedged, proxy.hedged);
  Follow(all.bytes_in, proxy.bytes_in);
  Follow(all.bytes_out, proxy.bytes_out);
  Follow(all.lost_events, moment.lost_events);
  if (moment.recorder) {
    Follow(all.recorded, moment.recorder->recorded);
    Follow(all.unrecorded, moment.recorder->refused);
    Follow(all.uploads, moment.recorder->uploaded_segments);
    Follow(all.upload_failures, moment.recorder->upload_failures);
    all.spool.Set(Number(moment.recorder->spool_bytes));
  }
  all.in_flight.Set(Number(moment.proxy.queue().in_flight()));
  all.queued.Set(Number(moment.proxy.queue().queued()));
  all.waiting.Set(Number(moment.proxy.waiting()));
  all.connections.Set(Number(moment.server.open));
  std::vector<MetricFamily> families = all.registry.Collect();
  for (auto&& family : LagFamilies(moment.staleness)) families.push_back(std::move(family));
  for (auto&& family : FleetFamilies(moment.snapshot)) families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace isthmus::gateway
