// sidecar, status: an island that follows a run.
#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "isthmus/board/json_fields.h"
#include "isthmus/cli/command.h"
#include "isthmus/cli/listener.h"
#include "isthmus/net/client.h"
#include "isthmus/sidecar/sidecar.h"

namespace isthmus::cli {
namespace {

using sidecar::DrainPolicy;

constexpr uint64_t kMaxInfoBytes = 1 << 20;
// Between two tokens of an engine that is not being switched.
constexpr auto kEngineSilence = std::chrono::seconds(120);
// Less than the 5 s after which uvicorn closes an unused connection: a request that meets the close
// would be lost.
constexpr auto kEngineKeepAlive = std::chrono::seconds(4);
constexpr auto kWatchInterval = std::chrono::seconds(1);

struct SidecarArguments {
  BoardOptions board;
  std::string replica;
  std::vector<std::string> engines;
  std::vector<std::string> upstreams;
  std::string listen = "127.0.0.1:8089";
  DrainPolicy policy = DrainPolicy::kInPlace;
  bool changes = true;
  board::VersionNumber pin = board::kNoVersion;
  uint64_t poll_ms = 2'000;
  uint64_t load_limit_s = 600;
  uint64_t pause_limit_s = 120;
  uint64_t generation_limit_s = 3600;
  uint64_t drain_limit_s = 600;
  uint64_t stop_limit_s = 30;
  uint64_t start_limit_s = 600;
  BodyArguments bodies;
  size_t max_waiting = 10'000;
  std::string restart_program;
  std::string event_log;
  AccessArguments access;
  std::string engine_token, engine_ca;
  std::vector<std::string> gateways;
  std::string island_id, advertise, gateway_token, gateway_ca;
  uint64_t gateway_ttl_s = 10;
};

sidecar::AnnouncerOptions AnnouncerOptionsOf(const SidecarArguments& arguments) {
  sidecar::AnnouncerOptions options;
  for (const std::string& url : arguments.gateways) {
    options.gateways.push_back(net::Origin::Parse(url));
  }
  options.island_id = arguments.island_id;
  options.advertise = arguments.advertise;
  options.token = ReadToken(arguments.gateway_token);
  options.ttl = std::chrono::seconds(arguments.gateway_ttl_s);
  if (!arguments.gateway_ca.empty()) {
    options.tls = std::make_shared<net::ClientTls>(PathOrNone(arguments.gateway_ca), std::nullopt);
  }
  return options;
}

sidecar::SidecarOptions OptionsOf(const SidecarArguments& arguments, const Context& context) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  board::CheckRunName(arguments.board.run);
  sidecar::SidecarOptions options;
  options.stager = {arguments.board.board,
                    arguments.board.store.Options(),
                    arguments.board.ReadTrust().trusted,
                    arguments.board.run,
                    arguments.replica,
                    context.threads};
  for (const std::string& text : arguments.engines) {
    options.engines.push_back(engine::EngineSpec::Parse(text));
  }
  for (const std::string& url : arguments.upstreams) {
    options.upstreams.push_back(net::Origin::Parse(url));
  }
  options.engine.limits.load = options.engine.limits.settle = seconds(arguments.load_limit_s);
  options.engine.limits.pause = seconds(arguments.pause_limit_s);
  // Requests stand still while a switch in place loads.
  const seconds standstill(arguments.load_limit_s + arguments.pause_limit_s);
  options.proxy.limits.idle = standstill + kEngineSilence;
  options.proxy.limits.first_byte = standstill + seconds(arguments.generation_limit_s);
  options.proxy.limits.pooled = kEngineKeepAlive;
  options.engine.bearer_token = ReadToken(arguments.engine_token);
  if (!arguments.engine_ca.empty()) {
    options.engine.tls =
        std::make_shared<net::ClientTls>(PathOrNone(arguments.engine_ca), std::nullopt);
  }
  options.restart_program = arguments.restart_program;
  options.reconciler.policy = arguments.policy;
  options.reconciler.changes = arguments.changes;
  options.reconciler.island_pin = arguments.pin;
  options.reconciler.poll = milliseconds(arguments.poll_ms);
  options.reconciler.start_limit = seconds(arguments.start_limit_s);
  options.gate.drain_limit = seconds(arguments.drain_limit_s);
  options.gate.max_waiting = arguments.max_waiting;
  options.proxy.max_body_bytes = arguments.bodies.max_body_bytes();
  options.proxy.max_held_bytes = arguments.bodies.max_held_bytes();
  options.announcer = AnnouncerOptionsOf(arguments);
  options.event_log = arguments.event_log;
  options.drain = seconds(arguments.stop_limit_s);
  ParseListen(arguments.listen, &options.server);
  options.access = arguments.access.Options();
  return options;
}

void RunSidecar(const SidecarArguments& arguments, Context& context) {
  AllowManyFiles();
  const sidecar::SidecarOptions options = OptionsOf(arguments, context);
  net::Loop loop(1);
  sidecar::Sidecar sidecar(loop, options);
  ServeUntilTold(loop, sidecar, [&] {
    PrintListening(context, options.server.host, options.access.tls != nullptr, sidecar.port());
  });
}

struct StatusArguments {
  std::string url;
  bool watch = false;
  std::string token;
};

net::Task<std::string> FetchInfo(net::Client& client, net::Origin origin, std::string token) {
  net::RequestHead head;
  head.target = "/server_info";
  if (!token.empty()) head.headers.Add("Authorization", "Bearer " + token);
  net::Call call = co_await client.Send(origin, std::move(head));
  if (call.head().status != 200) {
    Throw(ErrorCode::kUnavailable, "read status of {}: it answered {}", origin.Authority(),
          call.head().status);
  }
  co_return co_await call.ReadBody(kMaxInfoBytes);
}

std::string AskForInfo(const StatusArguments& arguments) {
  net::Loop loop(1);
  net::ClientLimits limits;
  limits.first_byte = limits.idle = std::chrono::seconds(10);
  net::Client client(loop, limits);
  std::string text;
  std::exception_ptr failure;
  boost::asio::co_spawn(
      loop, FetchInfo(client, net::Origin::Parse(arguments.url), ReadToken(arguments.token)),
      [&](const std::exception_ptr& error, std::string body) {
        failure = error;
        text = std::move(body);
        loop.stop();
      });
  loop.run();
  if (failure) std::rethrow_exception(failure);
  return text;
}

std::string TextOf(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || value->is_null()) return "-";
  if (value->is_double()) return fmt::format("{:.1f}", value->as_double());
  return value->is_string() ? OneLine(value->as_string()) : json::serialize(*value);
}

std::string EnginesOf(const json::object& info) {
  std::string text;
  const json::value* engines = info.if_contains("engines");
  if (engines == nullptr || !engines->is_array()) return "-";
  for (const json::value& engine : engines->as_array()) {
    if (!engine.is_object()) continue;
    text += (text.empty() ? "" : ", ") + TextOf(engine.as_object(), "name");
  }
  return text;
}

void PrintUpdate(const json::object& update, Facts* facts) {
  facts->Add("last update",
             fmt::format("{} {} to {}, {}", TextOf(update, "kind"), TextOf(update, "from"),
                         TextOf(update, "to"), TextOf(update, "ended_at")));
  std::string staged, closed;
  for (std::string_view phase : {"fetch", "apply", "check"}) {
    staged += fmt::format("{} {} ", phase, TextOf(update, fmt::format("{}_ms", phase)));
  }
  for (std::string_view phase : {"drain", "pause", "load", "flush", "verify", "resume", "canary"}) {
    closed += fmt::format("{} {} ", phase, TextOf(update, fmt::format("{}_ms", phase)));
  }
  facts->Add("staged, ms", std::string(net::TrimBlanks(staged)));
  facts->Add("switched, ms", std::string(net::TrimBlanks(closed)));
  facts->Add("paused, ms", TextOf(update, "paused_ms"));
  if (update.contains("error")) facts->Add("failed", TextOf(update, "error"));
}

void PrintStatus(const json::object& info) {
  Facts facts;
  facts.Add("run", TextOf(info, "run"));
  facts.Add("state", TextOf(info, "state"));
  if (!TextOf(info, "reason").empty()) facts.Add("reason", TextOf(info, "reason"));
  facts.Add("version", fmt::format("{} (target {}, lag {})", TextOf(info, "applied"),
                                   TextOf(info, "target"), TextOf(info, "lag")));
  facts.Add("requests", fmt::format("{} in flight, {} waiting", TextOf(info, "in_flight"),
                                    TextOf(info, "waiting")));
  facts.Add("engines", EnginesOf(info));
  const json::value* update = info.if_contains("last_update");
  if (update != nullptr && update->is_object()) PrintUpdate(update->as_object(), &facts);
  facts.Print();
}

void ShowStatus(const StatusArguments& arguments, bool as_json) {
  const json::value document = board::ParseJson(AskForInfo(arguments));
  if (!document.is_object()) {
    Throw(ErrorCode::kCorrupt, "read status of {}: not a JSON object", arguments.url);
  }
  if (as_json) {
    PrintJson(document.as_object());
  } else {
    PrintStatus(document.as_object());
  }
}

// Who watches wants to see a sidecar come back, too.
void RunStatus(const StatusArguments& arguments, Context& context) {
  for (bool first = true;; first = false) {
    if (!first && !context.json) fmt::print("\n");
    try {
      ShowStatus(arguments, context.json);
    } catch (const Error& error) {
      if (first) throw;
      PrintNotes({error.what()});
    }
    std::fflush(stdout);
    if (!arguments.watch) return;
    std::this_thread::sleep_for(kWatchInterval);
  }
}

void AddSecurity(CLI::App* command, SidecarArguments* arguments) {
  AddAccessOptions(command, &arguments->access, "/server_info, /metrics, /events and /wake");
  command->add_option("--engine-ca", arguments->engine_ca,
                      "PEM file of the authority of https engines");
  command->add_option("--engine-token-file", arguments->engine_token,
                      "File with the bearer token that the engines ask for");
}

void AddLimits(CLI::App* command, SidecarArguments* arguments) {
  const auto seconds = CLI::Range(uint64_t{1}, uint64_t{86'400});
  command->add_option("--poll-ms", arguments->poll_ms, "Time between readings of the board's log")
      ->check(CLI::Range(uint64_t{10}, uint64_t{3'600'000}))
      ->capture_default_str();
  command->add_option("--load-limit-s", arguments->load_limit_s, "Most that an engine may load for")
      ->check(seconds)
      ->capture_default_str();
  command
      ->add_option("--pause-limit-s", arguments->pause_limit_s,
                   "Most that an engine may take to pause, its own requests included")
      ->check(seconds)
      ->capture_default_str();
  command
      ->add_option("--generation-limit-s", arguments->generation_limit_s,
                   "Most that an engine may take for an answer in one piece")
      ->check(seconds)
      ->capture_default_str();
  command
      ->add_option("--drain-limit-s", arguments->drain_limit_s,
                   "Most that requests may delay a switch; then they are ended")
      ->check(seconds)
      ->capture_default_str();
  command
      ->add_option("--start-limit-s", arguments->start_limit_s,
                   "Most that engines may take to come up")
      ->check(seconds)
      ->capture_default_str();
  command
      ->add_option("--stop-limit-s", arguments->stop_limit_s,
                   "Most that requests may go on after SIGTERM")
      ->check(seconds)
      ->capture_default_str();
  command->add_option("--max-waiting", arguments->max_waiting, "Most requests that wait")
      ->capture_default_str();
  AddBodyOptions(command, &arguments->bodies);
}

void AddGateways(CLI::App* command, SidecarArguments* arguments) {
  command
      ->add_option("--gateway", arguments->gateways,
                   "URL of a gateway that is told of this island; repeatable")
      ->allow_extra_args(false);
  command->add_option("--island-id", arguments->island_id,
                      "The island's name for gateways (default: the machine's and the port)");
  command->add_option("--advertise", arguments->advertise,
                      "URL at which gateways reach this sidecar (default: that of --listen, if it "
                      "is one machine's address)");
  command->add_option("--gateway-token", arguments->gateway_token,
                      "File with the bearer token that the gateways ask operators for");
  command->add_option("--gateway-ca", arguments->gateway_ca,
                      "PEM file of the authority of https gateways");
  command
      ->add_option("--gateway-ttl-s", arguments->gateway_ttl_s,
                   "How long gateways believe in this island without another word")
      ->check(CLI::Range(uint64_t{1}, uint64_t{600}))
      ->capture_default_str();
}

}  // namespace

void AddSidecar(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<SidecarArguments>();
  CLI::App* command = app.add_subcommand(
      "sidecar", "Keep an island's engines at the run's version, and admit requests by version");
  command->footer(
      "Example: isthmus sidecar --board /mnt/board --run grpo-7 --replica /srv/model "
      "--engine vllm:http://127.0.0.1:8000 --listen 0.0.0.0:8089");
  AddBoardOptions(command, &arguments->board);
  command->add_option("--replica", arguments->replica, "Local checkpoint; created if missing")
      ->required();
  command
      ->add_option("--engine", arguments->engines,
                   "KIND:TARGET with KIND vllm, sglang, command or webhook; repeatable: all are "
                   "switched together")
      ->required()
      ->allow_extra_args(false);
  command
      ->add_option("--upstream", arguments->upstreams,
                   "URL that takes the requests (default: the engines); repeatable")
      ->allow_extra_args(false);
  command->add_option("--listen", arguments->listen, "HOST:PORT; port 0: any")
      ->capture_default_str();
  const std::map<std::string, DrainPolicy> policies = {{"in_place", DrainPolicy::kInPlace},
                                                       {"drain", DrainPolicy::kDrain},
                                                       {"abort", DrainPolicy::kAbort}};
  command
      ->add_option("--policy", arguments->policy,
                   "What happens to requests in flight when the version is switched")
      ->transform(CLI::CheckedTransformer(policies).description("{in_place,drain,abort}"))
      ->type_name("POLICY")
      ->default_str("in_place");
  const std::map<std::string, bool> loads = {{"changes", true}, {"full", false}};
  command
      ->add_option("--load", arguments->changes,
                   "What a switch writes into engines that have the plug-in: what changed, or all")
      ->transform(CLI::CheckedTransformer(loads).description("{changes,full}"))
      ->type_name("WHAT")
      ->default_str("changes");
  command->add_option("--pin", arguments->pin, "Serve this version and no other")
      ->check(CLI::Range(board::VersionNumber{1}, board::kMaxVersion));
  command->add_option("--restart-program", arguments->restart_program,
                      "Run as PROGRAM REPLICA VERSION when loads fail again and again, or the "
                      "engines are gone for --start-limit-s");
  command->add_option("--event-log", arguments->event_log,
                      "File for events as JSON lines; - for standard error");
  AddLimits(command, arguments.get());
  AddSecurity(command, arguments.get());
  AddGateways(command, arguments.get());
  command->callback([arguments, &context] { RunSidecar(*arguments, context); });
}

void AddStatus(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<StatusArguments>();
  CLI::App* command = app.add_subcommand("status", "Show what a sidecar serves and does");
  command->footer("Example: isthmus status http://127.0.0.1:8089 --watch");
  command->add_option("URL", arguments->url, "The sidecar's address")->required();
  command->add_flag("--watch", arguments->watch, "Show it again every second");
  command->add_option("--token-file", arguments->token, "File with an operator's bearer token");
  command->callback([arguments, &context] { RunStatus(*arguments, context); });
}

}  // namespace isthmus::cli
