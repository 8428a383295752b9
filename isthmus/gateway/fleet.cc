#include "isthmus/gateway/fleet.h"

#include <map>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"
#include "isthmus/gateway/query.h"
#include "isthmus/gateway/staleness.h"

namespace isthmus::gateway {
namespace {

namespace json = boost::json;
using board::VersionOrNull;

constexpr uint64_t kMaxReadyMs = 600'000;

bool Counts(const IslandView& island) {
  return island.state != IslandState::kGone && island.state != IslandState::kDraining;
}

json::object Brief(const json::object& update) {
  json::object brief;
  for (const std::string_view key : {"to", "ok", "ended_at", "stage_ms", "closed_ms"}) {
    if (const json::value* value = update.if_contains(key)) brief[key] = *value;
  }
  return brief;
}

json::object IslandJson(const IslandFacts& facts, const IslandView& island, VersionNumber newest,
                        bool brief) {
  const IslandReport& report = *facts.report;
  json::value last_update = nullptr;
  if (!report.last_update.empty()) {
    last_update = brief ? Brief(report.last_update) : report.last_update;
  }
  json::value lag = nullptr;
  if (island.served != kNoVersion) lag = LagOf(island.served, newest);
  json::value last_seen = nullptr;
  if (facts.since_report.count() >= 0) last_seen = facts.since_report.count();
  return {{"id", facts.id},
          {"url", (facts.url.tls ? "https://" : "http://") + facts.url.Authority()},
          {"source", facts.source == IslandSource::kRegistered ? "registered" : "listed"},
          {"run", report.run},
          {"state", IslandStateName(facts.state)},
          {"reason", facts.reason},
          {"served", VersionOrNull(island.served)},
          {"target", VersionOrNull(island.target)},
          {"newest", VersionOrNull(report.head)},
          {"lag", std::move(lag)},
          {"in_flight", island.in_flight},
          {"reported_in_flight", report.in_flight},
          {"waiting", report.waiting},
          {"share", facts.share},
          {"breaker", facts.breaker},
          {"failures", facts.failures},
          {"last_seen_ms", std::move(last_seen)},
          {"last_update", std::move(last_update)}};
}

json::object RunJson(const Snapshot& snapshot, uint32_t run) {
  std::map<VersionNumber, uint64_t, std::greater<>> versions;
  uint64_t islands = 0;
  for (const IslandView& island : snapshot.islands) {
    if (island.run != run || !Counts(island)) continue;
    ++islands;
    if (island.served != kNoVersion) ++versions[island.served];
  }
  json::array list;
  for (const auto& [version, count] : versions) {
    list.push_back(json::object{{"version", version}, {"islands", count}});
  }
  const RunView& view = snapshot.runs[run];
  const Readiness newest = ReadinessOf(snapshot, run, view.newest);
  return {{"run", view.name},
          {"newest", VersionOrNull(view.newest)},
          {"served", {{"islands", islands}, {"fraction_newest", newest.fraction()}}},
          {"versions", std::move(list)}};
}

}  // namespace

json::object FleetJson(const GatewayFacts& gateway, const Snapshot& snapshot,
                       const std::vector<IslandFacts>& islands, bool brief) {
  json::array runs;
  for (uint32_t run = 0; run < snapshot.runs.size(); ++run) {
    if (!snapshot.runs[run].name.empty()) runs.push_back(RunJson(snapshot, run));
  }
  json::array list;
  list.reserve(islands.size());
  for (const IslandFacts& facts : islands) {
    const IslandView& island = snapshot.islands[facts.place];
    const bool known = island.run < snapshot.runs.size();
    const VersionNumber newest = known ? snapshot.runs[island.run].newest : kNoVersion;
    list.push_back(IslandJson(facts, island, newest, brief));
  }
  return {{"gateway",
           {{"instance", gateway.instance},
            {"started_at", FormatTime(gateway.started_at)},
            {"in_flight", gateway.in_flight},
            {"queued", gateway.queued},
            {"waiting", gateway.waiting}}},
          {"runs", std::move(runs)},
          {"islands", std::move(list)}};
}

ReadyQuery ReadReadyQuery(std::string_view query) {
  Query parameters(query);
  ReadyQuery ready;
  const std::optional<uint64_t> version = parameters.TakeCount("version", board::kMaxVersion);
  if (!version) Throw(ErrorCode::kInvalid, "version: not given");
  ready.version = *version;
  ready.fraction = parameters.TakeFraction("fraction").value_or(ready.fraction);
  if (const auto timeout = parameters.TakeCount("timeout_ms", kMaxReadyMs)) {
    ready.timeout = milliseconds(*timeout);
  }
  parameters.End();
  return ready;
}

double Readiness::fraction() const {
  return islands == 0 ? 0 : static_cast<double>(serving) / static_cast<double>(islands);
}

bool Readiness::Satisfies(double asked) const { return serving > 0 && fraction() >= asked; }

Readiness ReadinessOf(const Snapshot& snapshot, uint32_t run, VersionNumber version) {
  Readiness readiness;
  for (const IslandView& island : snapshot.islands) {
    if (island.run != run || !Counts(island)) continue;
    ++readiness.islands;
    const bool serves =
        island.state == IslandState::kReady || island.state == IslandState::kStaging;
    if (serves && island.served != kNoVersion && island.served >= version) ++readiness.serving;
  }
  return readiness;
}

}  // namespace isthmus::gateway
