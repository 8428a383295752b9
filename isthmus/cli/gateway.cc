// gateway: one address for a fleet of islands.
#include <chrono>
#include <string>
#include <vector>

#include "isthmus/cli/command.h"
#include "isthmus/cli/listener.h"
#include "isthmus/gateway/gateway.h"

namespace isthmus::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A sidecar keeps unused connections for 75 s; one that it closes must not meet a request.
constexpr auto kIslandKeepAlive = seconds(60);
constexpr auto kConnectLimit = milliseconds(3'000);

struct GatewayArguments {
  std::string listen = "127.0.0.1:8088";
  std::vector<std::string> islands;
  std::string islands_file;
  std::vector<std::string> islands_dns;
  std::string run;
  uint64_t poll_ms = 1'000;
  uint64_t slow_start_s = 10;
  uint32_t attempts = 4;
  uint64_t hedge_ms = 0;
  std::optional<uint64_t> max_lag;
  gateway::RoomLimits room;
  uint32_t island_in_flight = 256;
  uint64_t queue_limit_s = 60;
  uint64_t generation_limit_s = 3600;
  uint64_t silence_limit_s = 900;
  BodyArguments bodies;
  size_t max_connections = 20'000;
  uint64_t stop_limit_s = 30;
  std::string record, record_spool;
  bool record_sync = false, record_requests = false;
  uint64_t record_rotate_bytes = uint64_t{64} << 20;
  uint64_t record_rotate_s = 60;
  uint64_t record_spool_bytes = uint64_t{4} << 30;
  uint64_t record_index_bytes = uint64_t{64} << 20;
  uint64_t record_answer_bytes = uint64_t{64} << 20;
  uint64_t record_held_bytes = uint64_t{1} << 30;
  StoreArguments store;
  std::string event_log, access_log;
  AccessArguments access;
  std::string island_token, island_ca;
};

std::optional<gateway::RecordOptions> RecordOf(const GatewayArguments& arguments) {
  if (arguments.record.empty()) {
    if (arguments.record_spool.empty()) return std::nullopt;
    Throw(ErrorCode::kInvalid, "read --record-spool: needs --record");
  }
  if (arguments.record_spool.empty()) {
    Throw(ErrorCode::kInvalid, "read --record: needs --record-spool, a directory on a local disk");
  }
  gateway::RecordOptions record;
  record.location = arguments.record;
  record.store = arguments.store.Options();
  record.spool = arguments.record_spool;
  record.sync = arguments.record_sync;
  record.rotate_bytes = arguments.record_rotate_bytes;
  record.rotate_interval = seconds(arguments.record_rotate_s);
  record.max_spool_bytes = arguments.record_spool_bytes;
  record.max_index_bytes = arguments.record_index_bytes;
  return record;
}

void SetIslands(const GatewayArguments& arguments, gateway::GatewayOptions* options) {
  options->sources.islands = arguments.islands;
  options->sources.file = PathOrNone(arguments.islands_file);
  for (const std::string& url : arguments.islands_dns) {
    options->sources.names.push_back(net::Origin::Parse(url));
  }
  options->prober.every = milliseconds(arguments.poll_ms);
  options->proxy.island_token = ReadToken(arguments.island_token);
  options->pool.island_in_flight = arguments.island_in_flight;
  options->pool.slow_start = seconds(arguments.slow_start_s);
  options->pool.stale = 10 * milliseconds(arguments.poll_ms);
  if (arguments.island_ca.empty()) return;
  const auto tls = std::make_shared<net::ClientTls>(PathOrNone(arguments.island_ca), std::nullopt);
  options->prober.tls = options->proxy.tls = tls;
}

gateway::GatewayOptions OptionsOf(const GatewayArguments& arguments) {
  gateway::GatewayOptions options;
  SetIslands(arguments, &options);
  if (!arguments.run.empty()) board::CheckRunName(arguments.run);
  options.proxy.run = arguments.run;
  options.proxy.room = arguments.room;
  options.proxy.attempts = arguments.attempts;
  options.proxy.max_lag = arguments.max_lag;
  options.proxy.queue_limit = seconds(arguments.queue_limit_s);
  options.proxy.max_body_bytes = arguments.bodies.max_body_bytes();
  options.proxy.max_held_bytes = arguments.bodies.max_held_bytes();
  options.proxy.limits.connect = kConnectLimit;
  options.proxy.limits.first_byte = seconds(arguments.generation_limit_s);
  options.proxy.limits.idle = seconds(arguments.silence_limit_s);
  options.proxy.limits.pooled = kIslandKeepAlive;
  options.record = RecordOf(arguments);
  options.proxy.record_requests = arguments.record_requests;
  options.proxy.record_answer_bytes = arguments.record_answer_bytes;
  options.proxy.record_held_bytes = arguments.record_held_bytes;
  options.proxy.hedge_after = milliseconds(arguments.hedge_ms);
  options.event_log = arguments.event_log;
  options.access_log = arguments.access_log;
  options.drain = seconds(arguments.stop_limit_s);
  options.server.limits.connections = arguments.max_connections;
  ParseListen(arguments.listen, &options.server);
  options.access = arguments.access.Options();
  return options;
}

void RunGateway(const GatewayArguments& arguments, Context& context) {
  AllowManyFiles();
  TakeLargeFilesAsErrors();
  const gateway::GatewayOptions options = OptionsOf(arguments);
  net::Loop loop(1);
  gateway::Gateway gateway(loop, options);
  ServeUntilTold(loop, gateway, [&] {
    PrintListening(context, options.server.host, options.access.tls != nullptr, gateway.port());
  });
}

void AddIslands(CLI::App* command, GatewayArguments* arguments) {
  command
      ->add_option("--island", arguments->islands,
                   "[ID=]URL of an island's sidecar; repeatable. Those that register need not be "
                   "named")
      ->allow_extra_args(false);
  command->add_option("--islands", arguments->islands_file,
                      "File of such islands, one a line; read again when it changes");
  command
      ->add_option("--islands-dns", arguments->islands_dns,
                   "URL of a name each of whose addresses is an island; repeatable")
      ->allow_extra_args(false);
  command->add_option("--poll-ms", arguments->poll_ms, "Time between two looks at an island")
      ->check(CLI::Range(uint64_t{50}, uint64_t{60'000}))
      ->capture_default_str();
  command
      ->add_option("--slow-start-s", arguments->slow_start_s,
                   "Time in which a new island comes to its whole share of requests")
      ->check(CLI::Range(uint64_t{0}, uint64_t{3'600}))
      ->capture_default_str();
}

void AddRequests(CLI::App* command, GatewayArguments* arguments) {
  command->add_option("--run", arguments->run,
                      "Run of requests that name none (default: the only one)");
  command->add_option("--max-lag", arguments->max_lag,
                      "Most versions that any answer may be behind the newest");
  command
      ->add_option("--attempts", arguments->attempts,
                   "Islands that a request is sent to at most, one after another")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command
      ->add_option("--hedge-ms", arguments->hedge_ms,
                   "Ask a second island if the first has sent nothing for so long (0: never)")
      ->check(CLI::Range(uint64_t{0}, uint64_t{86'400'000}))
      ->capture_default_str();
  const auto seconds_range = CLI::Range(uint64_t{1}, uint64_t{86'400});
  command
      ->add_option("--generation-limit-s", arguments->generation_limit_s,
                   "Most that an island may take to begin its answer")
      ->check(seconds_range)
      ->capture_default_str();
  command
      ->add_option("--silence-limit-s", arguments->silence_limit_s,
                   "Most that an island may be silent in the middle of an answer")
      ->check(seconds_range)
      ->capture_default_str();
  command
      ->add_option("--stop-limit-s", arguments->stop_limit_s,
                   "Most that requests may go on after SIGTERM")
      ->check(seconds_range)
      ->capture_default_str();
}

void AddRoom(CLI::App* command, GatewayArguments* arguments) {
  const auto some = CLI::Range(size_t{1}, size_t{1'000'000});
  command
      ->add_option("--island-in-flight", arguments->island_in_flight,
                   "Most requests at one island at once")
      ->check(some)
      ->capture_default_str();
  command->add_option("--max-in-flight", arguments->room.in_flight, "Most requests at all at once")
      ->check(some)
      ->capture_default_str();
  command->add_option("--max-queued", arguments->room.queued, "Most requests that wait for room")
      ->check(CLI::Range(size_t{0}, size_t{1'000'000}))
      ->capture_default_str();
  command
      ->add_option("--queue-limit-s", arguments->queue_limit_s,
                   "Most that a request waits for room")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86'400}))
      ->capture_default_str();
  command
      ->add_option("--client-in-flight", arguments->room.client_in_flight,
                   "Most requests of one client at once (0: no limit)")
      ->capture_default_str();
  command
      ->add_option("--client-rate", arguments->room.client_rate,
                   "Most requests of one client a second (0: no limit)")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--max-connections", arguments->max_connections,
                   "Open connections; more wait until one ends")
      ->check(some)
      ->capture_default_str();
  AddBodyOptions(command, &arguments->bodies);
}

void AddRecord(CLI::App* command, GatewayArguments* arguments) {
  command->add_option("--record", arguments->record,
                      "Write finished rollouts there: a directory, or s3://BUCKET[/PREFIX]");
  command->add_option("--record-spool", arguments->record_spool,
                      "Directory on a local disk for rollouts that the store does not have yet");
  command->add_flag("--record-sync", arguments->record_sync,
                    "Sync each rollout to the disk before its answer ends");
  command->add_flag("--record-requests", arguments->record_requests,
                    "Write down the bodies of requests too");
  const auto bytes = CLI::Range(uint64_t{1} << 10, uint64_t{1} << 50);
  const auto add_bytes = [&](const char* name, uint64_t* value, const char* help) {
    command->add_option(name, *value, help)->check(bytes)->capture_default_str();
  };
  add_bytes("--record-rotate-bytes", &arguments->record_rotate_bytes,
            "Size of a file of the spool at which it goes to the store");
  command
      ->add_option("--record-rotate-s", arguments->record_rotate_s,
                   "Age of a file of the spool at which it goes to the store")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86'400}))
      ->capture_default_str();
  add_bytes("--record-spool-bytes", &arguments->record_spool_bytes,
            "Most that the spool may take; beyond, rollouts are not recorded");
  add_bytes("--record-index-bytes", &arguments->record_index_bytes,
            "Memory for the ids of rollouts that can be asked for");
  add_bytes("--record-answer-bytes", &arguments->record_answer_bytes,
            "Most of an answer that is recorded");
  add_bytes("--record-held-bytes", &arguments->record_held_bytes,
            "Memory for all answers that are not finished; beyond, they are cut");
  AddStoreOptions(command, &arguments->store);
  command->add_option("--event-log", arguments->event_log,
                      "File for events as JSON lines; - for standard error");
  command->add_option("--access-log", arguments->access_log,
                      "File with a JSON line for each request; - for standard error");
}

void AddSecurity(CLI::App* command, GatewayArguments* arguments) {
  AddAccessOptions(command, &arguments->access,
                   "islands that register, /v1/fleet, /metrics and /events");
  command->add_option("--island-token", arguments->island_token,
                      "File with the bearer token that islands ask for");
  command->add_option("--island-ca", arguments->island_ca,
                      "PEM file of the authority of https islands");
}

}  // namespace

void AddGateway(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<GatewayArguments>();
  CLI::App* command = app.add_subcommand(
      "gateway", "Give a fleet of islands one address, and route requests by version");
  command->footer("Example: isthmus gateway --listen 0.0.0.0:8088 --operator-tokens operators");
  command->add_option("--listen", arguments->listen, "HOST:PORT; port 0: any")
      ->capture_default_str();
  AddIslands(command, arguments.get());
  AddRequests(command, arguments.get());
  AddRoom(command, arguments.get());
  AddRecord(command, arguments.get());
  AddSecurity(command, arguments.get());
  command->callback([arguments, &context] { RunGateway(*arguments, context); });
}

}  // namespace isthmus::cli
