// The second half of the gateway: the routes that it answers by itself.
#include <boost/json/serialize.hpp>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"
#include "isthmus/gateway/gateway.h"
#include "isthmus/gateway/query.h"

namespace isthmus::gateway {
namespace {

namespace json = boost::json;
using net::Task;

constexpr uint64_t kMaxOwnBodyBytes = 4096;
constexpr std::string_view kJson = "application/json";
constexpr std::string_view kIslands = "/v1/islands";
constexpr std::string_view kRuns = "/v1/runs/";
constexpr std::string_view kReady = "/ready";
constexpr std::string_view kRollouts = "/v1/rollouts/";

// What is behind the prefix; nullopt if the path is another.
std::optional<std::string> Behind(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) return std::nullopt;
  return std::string(path.substr(prefix.size()));
}

std::optional<std::string> RunOfReady(std::string_view path) {
  if (!path.starts_with(kRuns) || !path.ends_with(kReady)) return std::nullopt;
  if (path.size() <= kRuns.size() + kReady.size()) return std::nullopt;
  path.remove_prefix(kRuns.size());
  path.remove_suffix(kReady.size());
  return std::string(path);
}

bool IsOpen(std::string_view path) {
  return path == "/health" || path == "/live" || FindAsset(path).has_value();
}

bool IsOperators(std::string_view path) {
  return path == "/metrics" || path == "/events" || path == "/v1/fleet" ||
         path == "/v1/fleet/history" || path == kIslands ||
         Behind(path, std::string(kIslands) + "/").has_value();
}

std::string_view TypeOf(std::string_view path) {
  return path == "/metrics" ? "text/plain; version=0.0.4; charset=utf-8" : kJson;
}

net::ResponseHead HeadOf(int status, std::string_view type) {
  net::ResponseHead head{.status = status};
  head.headers.Add("Content-Type", type);
  head.headers.Add("Cache-Control", "no-store");
  return head;
}

net::ResponseHead NotAllowed(std::string_view allowed) {
  net::ResponseHead head{.status = 405};
  head.headers.Add("Allow", allowed);
  return head;
}

bool Reads(const net::RequestHead& head) { return head.method == "GET" || head.method == "HEAD"; }

std::string Line(const json::value& value) { return json::serialize(value) + "\n"; }

}  // namespace

bool Gateway::MayAsk(const net::RequestHead& request, std::string_view path) const {
  if (IsOpen(path)) return true;
  const net::Caller caller = IsOperators(path) ? net::Caller::kOperator : net::Caller::kClient;
  return access_.Admits(request.headers, caller);
}

Task<void> Gateway::Handle(net::Exchange& exchange) {
  const std::string target = exchange.request().target;
  const size_t mark = target.find('?');
  const std::string path = target.substr(0, mark);
  if (!MayAsk(exchange.request(), path)) {
    co_return co_await exchange.Respond(net::Unauthorized());
  }
  const std::optional<std::string> run = RunOfReady(path);
  const std::optional<std::string> rollout = Behind(path, kRollouts);
  if (!run && !rollout && !IsOpen(path) && !IsOperators(path)) {
    co_return co_await proxy_.Handle(exchange);
  }
  const std::string query = mark == std::string::npos ? "" : target.substr(mark + 1);
  if (path == kIslands) co_return co_await ServeRegistration(exchange);
  if (const auto id = Behind(path, std::string(kIslands) + "/")) {
    co_return co_await ServeRemoval(exchange, *id);
  }
  if (!Reads(exchange.request())) co_return co_await exchange.Respond(NotAllowed("GET, HEAD"));
  co_await exchange.ReadBody(kMaxOwnBodyBytes);
  if (run) co_return co_await ServeReady(exchange, *run, query);
  if (rollout) co_return co_await ServeRollout(exchange, *rollout);
  if (const auto asset = FindAsset(path)) co_return co_await ServeAsset(exchange, *asset);
  const std::string text = OwnText(path, query);
  const int status = path == "/health" && !Serves() ? 503 : 200;
  net::ResponseHead head = HeadOf(status, TypeOf(path));
  co_await exchange.Respond(std::move(head), text);
}

bool Gateway::Serves() const {
  for (const IslandView& island : pool_.snapshot().islands) {
    if (island.state == IslandState::kReady || island.state == IslandState::kStaging) return true;
  }
  return false;
}

std::string Gateway::OwnText(std::string_view path, std::string_view query) {
  if (path == "/live") return Line(json::object{{"live", true}});
  if (path == "/health") return Line(json::object{{"ready", Serves()}});
  if (path == "/events") return events_.RecentJson();
  if (path == "/metrics") {
    std::optional<RecorderCounters> recorder;
    if (recorder_) recorder = recorder_->counters();
    return metrics_.Expose({proxy_, pool_.snapshot(), staleness_, registrations_,
                            server_->counters(), recorder, events_.lost()});
  }
  if (path == "/v1/fleet/history") {
    return history_.Answer(ReadHistoryQuery(query), MonotonicNow());
  }
  Query parameters(query);
  const bool brief = parameters.TakeCount("brief", 1).value_or(0) == 1;
  parameters.End();
  const std::vector<IslandFacts> islands = pool_.Facts(MonotonicNow());
  return Line(FleetJson(Facts(), pool_.snapshot(), islands, brief));
}

GatewayFacts Gateway::Facts() const {
  return {instance_, started_, proxy_.queue().in_flight(), proxy_.queue().queued(),
          proxy_.waiting()};
}

// The page is open, for it asks for the token itself; it shows nothing of the fleet.
Task<void> Gateway::ServeAsset(net::Exchange& exchange, const Asset& asset) {
  const net::Headers& asked = exchange.request().headers;
  const bool zipped = !asset.gzip.empty() && asked.HasToken("Accept-Encoding", "gzip");
  const std::string_view etag = zipped ? asset.gzip_etag : asset.etag;
  net::ResponseHead head{.status = asked.HasToken("If-None-Match", etag) ? 304 : 200};
  head.headers.Add("Content-Type", asset.content_type);
  head.headers.Add("ETag", etag);
  head.headers.Add("Cache-Control", "no-cache");
  head.headers.Add("Vary", "Accept-Encoding");
  head.headers.Add("Content-Security-Policy", kAssetPolicy);
  head.headers.Add("X-Content-Type-Options", "nosniff");
  head.headers.Add("Referrer-Policy", "no-referrer");
  if (zipped) head.headers.Add("Content-Encoding", "gzip");
  const std::string_view body = head.status == 304 ? "" : zipped ? asset.gzip : asset.bytes;
  co_await exchange.Respond(std::move(head), body);
}

Task<void> Gateway::ServeRegistration(net::Exchange& exchange) {
  if (exchange.request().method != "POST") co_return co_await exchange.Respond(NotAllowed("POST"));
  const std::string body = co_await exchange.ReadBody(kMaxRegistrationBytes);
  milliseconds ttl{0};
  try {
    const Registration registration = ReadRegistration(body);
    pool_.Register(registration, MonotonicNow());
    ttl = registration.ttl;
    ++registrations_.accepted;
  } catch (const Error& error) {
    ++(error.code() == ErrorCode::kConflict ? registrations_.conflicts : registrations_.refused);
    events_.Write("registration_refused", {{"error", error.what()}, {"peer", exchange.peer()}});
    throw;
  }
  Notice();
  const std::string text = Line(json::object{{"gateway", instance_}, {"ttl_ms", ttl.count()}});
  net::ResponseHead head = HeadOf(200, kJson);
  co_await exchange.Respond(std::move(head), text);
}

Task<void> Gateway::ServeRemoval(net::Exchange& exchange, std::string id) {
  if (exchange.request().method != "DELETE") {
    co_return co_await exchange.Respond(NotAllowed("DELETE"));
  }
  co_await exchange.ReadBody(kMaxOwnBodyBytes);
  if (!pool_.Remove(id, MonotonicNow())) {
    Throw(ErrorCode::kNotFound, "remove island {:?}: none that registered has this id",
          id.substr(0, 128));
  }
  Notice();
  net::ResponseHead head{.status = 204};
  co_await exchange.Respond(std::move(head));
}

Task<void> Gateway::ServeReady(net::Exchange& exchange, std::string run, std::string query) {
  board::CheckRunName(run);
  const ReadyQuery ask = ReadReadyQuery(query);
  const MonotonicTime end = MonotonicNow() + ask.timeout;
  Readiness found;
  bool ready = false;
  for (;;) {
    const std::optional<uint32_t> place = pool_.FindRun(run);
    found = place ? ReadinessOf(pool_.snapshot(), *place, ask.version) : Readiness();
    ready = found.Satisfies(ask.fraction);
    const auto left = std::chrono::ceil<net::Milliseconds>(end - MonotonicNow());
    if (ready || terminating_ || left.count() <= 0) break;
    co_await changed_.Wait(left);
  }
  const std::string body = Line(json::object{{"run", run},
                                             {"version", ask.version},
                                             {"islands", found.islands},
                                             {"serving", found.serving},
                                             {"fraction", found.fraction()},
                                             {"ready", ready}});
  net::ResponseHead head = HeadOf(ready ? 200 : 202, kJson);
  co_await exchange.Respond(std::move(head), body);
}

Task<void> Gateway::ServeRollout(net::Exchange& exchange, std::string id) {
  if (!recorder_) Throw(ErrorCode::kNotFound, "read rollout: the gateway runs without --record");
  if (!IsRequestId(id)) Throw(ErrorCode::kInvalid, "read rollout {:?}: no id", id.substr(0, 128));
  const std::optional<std::string> line = co_await recorder_->Find(id);
  if (!line) {
    Throw(ErrorCode::kNotFound, "read rollout {}: not among those that can be asked for", id);
  }
  net::ResponseHead head = HeadOf(200, kJson);
  co_await exchange.Respond(std::move(head), *line);
}

}  // namespace isthmus::gateway
