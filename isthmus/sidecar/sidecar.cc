#include "isthmus/sidecar/sidecar.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/sidecar/server_info.h"

namespace isthmus::sidecar {
namespace {

using net::Task;

constexpr uint64_t kMaxOwnBodyBytes = 4096;

std::vector<std::unique_ptr<engine::Engine>> MakeEngines(net::Loop& loop,
                                                         const SidecarOptions& options) {
  std::vector<std::unique_ptr<engine::Engine>> engines;
  engines.reserve(options.engines.size());
  for (const engine::EngineSpec& spec : options.engines) {
    engines.push_back(engine::MakeEngine(loop, spec, options.engine));
  }
  return engines;
}

std::unique_ptr<engine::Engine> MakeRestarter(net::Loop& loop, const SidecarOptions& options) {
  if (options.restart_program.empty()) return nullptr;
  return engine::MakeEngine(loop, {"command", options.restart_program}, options.engine);
}

std::vector<net::Origin> OriginsOf(const EngineGroup& engines) {
  std::vector<net::Origin> origins;
  for (const auto& engine : engines.engines()) {
    if (engine->origin()) origins.push_back(*engine->origin());
  }
  return origins;
}

// The run and the pin are the same everywhere.
SidecarOptions Completed(SidecarOptions options) {
  const std::string& run = options.stager.run;
  options.reconciler.run = options.gate.run = options.proxy.run = run;
  options.gate.island_pin = options.reconciler.island_pin;
  // A token for the sidecar's own listener is nothing that engines should see.
  options.proxy.keep_authorization = !options.access.asks_for_tokens();
  options.proxy.engine_token = options.engine.bearer_token;
  options.proxy.tls = options.engine.tls;
  options.server.tls = options.access.tls;
  options.server.limits.body_bytes = options.proxy.max_body_bytes;
  return options;
}

}  // namespace

Sidecar::Sidecar(net::Loop& loop, SidecarOptions options)
    : loop_(loop),
      options_(Completed(std::move(options))),
      events_(options_.event_log),
      stager_(loop, options_.stager),
      keeper_(loop, options_.gate),
      engines_(loop, MakeEngines(loop, options_)),
      presence_(loop, OriginsOf(engines_)),
      reconciler_(loop, options_.reconciler, keeper_, engines_, presence_, stager_,
                  SwitchJournal(options_.stager.replica / ".isthmus" / "engines.json"), events_,
                  MakeRestarter(loop, options_)),
      proxy_(loop, options_.proxy, keeper_, presence_,
             options_.upstreams.empty() ? OriginsOf(engines_) : options_.upstreams),
      metrics_(options_.stager.run),
      access_(options_.access) {
  keeper_.set_on_waiting([this] { reconciler_.Nudge(); });
  proxy_.set_on_failure([this] { reconciler_.Suspect(); });
  reconciler_.set_on_update([this](const Update& update) { metrics_.Observe(update); });
  server_ = std::make_unique<net::Server>(
      loop, options_.server, [this](net::Exchange& exchange) { return Handle(exchange); });
  if (!options_.announcer.gateways.empty()) MakeAnnouncer();
}

// What is not given is the listener's, whose port is known only now.
void Sidecar::MakeAnnouncer() {
  AnnouncerOptions options = options_.announcer;
  if (options.island_id.empty()) {
    options.island_id = DefaultIslandId(net::asio::ip::host_name(), port());
  }
  if (options.advertise.empty()) {
    options.advertise = AdvertisedUrl(options_.server.host, port(), options_.access.tls != nullptr);
  }
  announcer_.emplace(
      loop_, std::move(options), [this] { return Info(); }, events_);
  keeper_.set_on_change([this] { announcer_->Nudge(); });
  reconciler_.set_on_change([this] { announcer_->Nudge(); });
}

boost::json::object Sidecar::Info() const {
  return ServerInfo(options_.stager.run, keeper_.gate(), reconciler_, engines_, stager_);
}

Sidecar::~Sidecar() = default;

Task<void> Sidecar::Run() {
  events_.Write("started", {{"run", options_.stager.run},
                            {"engines", engines_.names()},
                            {"held", stager_.held()},
                            {"port", port()}});
  bool running = true;
  std::exception_ptr failure;
  net::asio::co_spawn(loop_.get_executor(), reconciler_.Run(),
                      [&](const std::exception_ptr& error) {
                        running = false;
                        failure = error;
                        terminating_ = true;
                        changed_.Fire();  // last: it may end this coroutine
                      });
  if (announcer_) announcer_->Start();
  while (!terminating_) co_await changed_.Wait();
  events_.Write("stopping", {});
  // Before anything ends here: what is sent from now on goes elsewhere.
  if (announcer_) co_await announcer_->Leave();
  stager_.Stop();
  co_await reconciler_.Stop();
  keeper_.Stop();
  co_await server_->Drain(options_.drain);
  while (running) co_await changed_.Wait();
  events_.Write("stopped", {});
  if (failure) std::rethrow_exception(failure);
}

void Sidecar::Terminate() {
  terminating_ = true;
  changed_.Fire();
}

void Sidecar::Reload() {
  try {
    access_.Reload();
    events_.Write("reloaded", {});
  } catch (const Error& error) {
    events_.Write("reload_failed", {{"error", error.what()}});
  }
}

Task<void> Sidecar::Handle(net::Exchange& exchange) {
  const std::string target = exchange.request().target;
  const std::string path = target.substr(0, target.find('?'));
  const bool open = path == "/health" || path == "/live";
  const bool own =
      open || path == "/server_info" || path == "/metrics" || path == "/events" || path == "/wake";
  const net::Caller caller = own ? net::Caller::kOperator : net::Caller::kClient;
  if (!open && !access_.Admits(exchange.request().headers, caller)) {
    co_return co_await exchange.Respond(net::Unauthorized());
  }
  if (own) co_return co_await HandleOwn(exchange, path);
  if (reconciler_.abilities()) proxy_.set_salt_field(reconciler_.abilities()->salt_field);
  co_await proxy_.Handle(exchange);
}

Task<void> Sidecar::HandleOwn(net::Exchange& exchange, std::string_view path) {
  const std::string& method = exchange.request().method;
  const bool wakes = path == "/wake";
  net::ResponseHead head;
  if (wakes ? method != "POST" : (method != "GET" && method != "HEAD")) {
    head.status = 405;
    head.headers.Add("Allow", wakes ? "POST" : "GET, HEAD");
    co_return co_await exchange.Respond(std::move(head));
  }
  co_await exchange.ReadBody(kMaxOwnBodyBytes);
  if (wakes) reconciler_.Wake();
  const std::string body = OwnBody(path);
  head.status = path == "/health" && !IsReady(keeper_.gate()) ? 503 : 200;
  head.headers.Add("Content-Type", path == "/metrics" ? "text/plain; version=0.0.4; charset=utf-8"
                                                      : "application/json");
  co_await exchange.Respond(std::move(head), body);
}

std::string Sidecar::OwnBody(std::string_view path) {
  const Gate& gate = keeper_.gate();
  const IslandReport& report = reconciler_.report();
  if (path == "/metrics") {
    return metrics_.Expose({gate, report, proxy_.counters(), server_->counters(), events_.lost()});
  }
  if (path == "/events") return events_.RecentJson();
  boost::json::object body = {{"live", true}};
  if (path == "/health") body = {{"ready", IsReady(gate)}, {"state", PhaseName(report.phase)}};
  if (path == "/server_info") body = Info();
  if (path == "/wake") body = {{"awake", true}};
  return boost::json::serialize(body) + "\n";
}

}  // namespace isthmus::sidecar
