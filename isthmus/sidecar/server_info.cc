#include "isthmus/sidecar/server_info.h"

#include "isthmus/board/json_fields.h"

namespace isthmus::sidecar {
namespace {

namespace json = boost::json;
using board::VersionOrNull;

json::array EnginesOf(const EngineGroup& engines) {
  json::array list;
  for (const auto& engine : engines.engines())
    list.push_back(json::object{{"name", engine->name()}});
  return list;
}

json::value AbilitiesOf(const std::optional<engine::Abilities>& abilities) {
  if (!abilities) return nullptr;
  return {{"keeps", abilities->keeps},
          {"labels", abilities->labels},
          {"tells_pause", abilities->tells_pause},
          {"generates", abilities->generates},
          {"salt_field", abilities->salt_field}};
}

json::object BoardOf(const Gate& gate, const IslandReport& report) {
  const auto lag = gate.board().TimeLag(gate.served(), SystemClock().Monotonic());
  json::value lag_ms = nullptr;
  if (lag != BoardView::kUnknownTimeLag) {
    lag_ms = std::chrono::duration_cast<std::chrono::milliseconds>(lag).count();
  }
  json::value read_at = nullptr;
  if (report.board_read) read_at = FormatTime(*report.board_read);
  return {{"head", VersionOrNull(report.head)},
          {"newest", VersionOrNull(gate.board().newest())},
          {"read_at", std::move(read_at)},
          {"lag_ms_at_most", std::move(lag_ms)},
          {"error", report.board_error}};
}

json::array VersionsOf(const Stager& stager) {
  json::array list;
  for (const auto& [version, facts] : stager.versions()) {
    json::object meta;
    for (const auto& [key, text] : facts.meta) meta.emplace(key, text);
    json::value patch_bytes = nullptr;
    if (facts.patch_bytes) patch_bytes = *facts.patch_bytes;
    list.push_back(json::object{{"version", version},
                                {"patch_bytes", std::move(patch_bytes)},
                                {"changed", facts.changed},
                                {"elements", facts.elements},
                                {"created_at", FormatTime(facts.created_at)},
                                {"meta", std::move(meta)}});
  }
  return list;
}

}  // namespace

bool IsReady(const Gate& gate) {
  return gate.state() == GateState::kReady && !gate.board().revoked(gate.served());
}

json::object ServerInfo(const std::string& run, const Gate& gate, const Reconciler& reconciler,
                        const EngineGroup& engines, const Stager& stager) {
  const IslandReport& report = reconciler.report();
  const uint64_t lag = gate.board().Lag(gate.served());
  json::array unloadable(report.unloadable.begin(), report.unloadable.end());
  return {{"ready", IsReady(gate)},
          {"run", run},
          {"state", PhaseName(report.phase)},
          {"gate", GateStateName(gate.state())},
          {"applied", VersionOrNull(gate.served())},
          {"target", VersionOrNull(report.target)},
          {"lag", lag == BoardView::kUnknownLag ? json::value(nullptr) : json::value(lag)},
          {"reason", report.reason},
          {"waiting", gate.waiting()},
          {"in_flight", gate.in_flight()},
          {"board", BoardOf(gate, report)},
          {"engines", EnginesOf(engines)},
          {"abilities", AbilitiesOf(reconciler.abilities())},
          {"writes_changes", reconciler.writes_changes()},
          {"unloadable", std::move(unloadable)},
          {"versions", VersionsOf(stager)},
          {"last_update",
           report.last_update ? json::value(report.last_update->ToJson()) : json::value(nullptr)},
          {"isthmus", ISTHMUS_VERSION}};
}

}  // namespace isthmus::sidecar
