// board serve: a board for a region, over HTTP.
#include <utility>

#include "isthmus/cli/command.h"
#include "isthmus/cli/listener.h"
#include "isthmus/relay/relay.h"

namespace isthmus::cli {
namespace {

struct ServeArguments {
  std::string board;
  StoreArguments store;
  std::string listen = "127.0.0.1:8090";
  std::string cache;
  uint64_t cache_bytes = uint64_t{64} << 30;
  uint64_t poll_ms = 500;
  uint64_t client_bytes_per_s = 0;
  uint64_t stop_limit_s = 30;
  size_t max_connections = 1000;
  std::string event_log;
  AccessArguments access;
};

relay::RelayOptions OptionsOf(const ServeArguments& arguments) {
  relay::RelayOptions options;
  options.board = arguments.board;
  options.store = arguments.store.Options();
  options.cache = PathOrNone(arguments.cache);
  options.cache_bytes = arguments.cache_bytes;
  options.poll = std::chrono::milliseconds(arguments.poll_ms);
  options.client_bytes_per_s = arguments.client_bytes_per_s;
  options.drain = std::chrono::seconds(arguments.stop_limit_s);
  options.event_log = arguments.event_log;
  options.server.limits.connections = arguments.max_connections;
  ParseListen(arguments.listen, &options.server);
  options.access = arguments.access.Options();
  return options;
}

void RunServe(const ServeArguments& arguments, Context& context) {
  AllowManyFiles();
  TakeLargeFilesAsErrors();
  const relay::RelayOptions options = OptionsOf(arguments);
  net::Loop loop(1);
  relay::Relay relay(loop, options);
  ServeUntilTold(loop, relay, [&] {
    PrintListening(context, options.server.host, options.access.tls != nullptr, relay.port());
  });
}

void AddLimits(CLI::App* command, ServeArguments* arguments) {
  command
      ->add_option("--cache-bytes", arguments->cache_bytes,
                   "Most that the cache may take on its disk")
      ->capture_default_str();
  command
      ->add_option("--poll-ms", arguments->poll_ms,
                   "Time between two looks at the log of a run that is watched")
      ->check(CLI::Range(uint64_t{10}, uint64_t{3'600'000}))
      ->capture_default_str();
  command
      ->add_option("--client-bytes-per-s", arguments->client_bytes_per_s,
                   "Most that each client address gets (0: no limit)")
      ->capture_default_str();
  command
      ->add_option("--max-connections", arguments->max_connections,
                   "Open connections; more wait until one ends")
      ->check(CLI::Range(size_t{1}, size_t{1'000'000}))
      ->capture_default_str();
  command
      ->add_option("--stop-limit-s", arguments->stop_limit_s,
                   "Most that requests may go on after SIGTERM")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86'400}))
      ->capture_default_str();
}

}  // namespace

void AddBoardServe(CLI::App& board, Context& context) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = board.add_subcommand(
      "serve", "Serve a board to a region over HTTP, and keep what was fetched on a disk");
  command->footer(
      "Example: isthmus board serve /mnt/board --listen 0.0.0.0:8090 --cache /var/cache/isthmus");
  command
      ->add_option("BOARD", arguments->board,
                   "Board: a directory, s3://BUCKET[/PREFIX], or another relay's http(s)://HOST")
      ->required();
  arguments->store.deadline_s = 10;  // clients wait meanwhile, and try again by themselves
  AddStoreOptions(command, &arguments->store);
  command->add_option("--listen", arguments->listen, "HOST:PORT; port 0: any")
      ->capture_default_str();
  command->add_option("--cache", arguments->cache,
                      "Directory for fetched objects; without it all are passed through");
  command->add_option("--event-log", arguments->event_log,
                      "File for events as JSON lines; - for standard error");
  AddLimits(command, arguments.get());
  AddAccessOptions(command, &arguments->access, "");
  command->callback([arguments, &context] { RunServe(*arguments, context); });
}

}  // namespace isthmus::cli
