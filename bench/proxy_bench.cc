// isthmus-bench-proxy: the engines behind a proxy, and the load in front of it; bench/proxy_job.py
// and bench/gateway_job.py put them together. Prints one line of JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/gate_release.h"
#include "bench/proxy_engine.h"
#include "bench/proxy_load.h"
#include "isthmus/base/error.h"
#include "isthmus/net/process_signals.h"
#include "isthmus/net/server.h"

namespace isthmus::bench {
namespace {

// Times as whole numbers, for CLI11.
struct Arguments {
  std::string target;
  uint64_t load_ms = 0;
  std::string run;
  uint16_t port = 0;
  size_t islands = 1;
  uint64_t warm_up_ms = 200, time_ms = 1000;
  uint64_t interval_us = 50'000;
  uint64_t ramp_ms = 1000;
  uint64_t hold_ms = 500;
  uint64_t paced_hold_ms = 0;
  ClosedLoop closed_loop;
  Streams streams;
  LargeAnswers large;
  WaitingTurns waiting;
  Paced paced;
};

void Print(const boost::json::object& result) {
  fmt::print("{}\n", boost::json::serialize(result));
}

// Until SIGTERM.
void RunEngine(const Arguments& arguments) {
  net::Loop loop(1);
  ProxyEngine engine(std::chrono::milliseconds(arguments.load_ms), arguments.run);
  net::ServerOptions options;
  options.port = arguments.port;
  std::vector<std::unique_ptr<net::Server>> servers;
  boost::json::array ports;
  for (size_t i = 0; i < arguments.islands; ++i) {
    servers.push_back(std::make_unique<net::Server>(
        loop, options, [&](net::Exchange& exchange) { return engine.Handle(exchange); }));
    ports.push_back(servers.back()->port());
  }
  const net::ProcessSignals signals(
      loop, [&] { loop.stop(); }, [] {});
  Print({{"port", ports.front()}, {"ports", ports}});
  std::fflush(stdout);
  loop.run();
}

void AddEngine(CLI::App& app, Arguments& arguments) {
  CLI::App* command = app.add_subcommand("engine", "Serve on a port that it prints");
  command->add_option("--load-ms", arguments.load_ms, "what a load of weights takes");
  command->add_option("--run", arguments.run, "serve version 1 of it, as an island does");
  command->add_option("--port", arguments.port, "of the first; 0: any");
  command->add_option("--islands", arguments.islands, "that are this process, each on its port");
  command->callback([&] { RunEngine(arguments); });
}

CLI::App* AddClient(CLI::App& app, const char* name, const char* text, Arguments& arguments) {
  CLI::App* command = app.add_subcommand(name, text);
  command->add_option("TARGET", arguments.target, "http://ADDRESS:PORT")->required();
  return command;
}

void AddLoad(CLI::App& app, Arguments& arguments) {
  CLI::App* command = AddClient(app, "load", "Small completions in a closed loop", arguments);
  command->add_option("--connections", arguments.closed_loop.connections);
  command->add_option("--warm-up-ms", arguments.warm_up_ms);
  command->add_option("--time-ms", arguments.time_ms);
  command->callback([&] {
    arguments.closed_loop.warm_up = std::chrono::milliseconds(arguments.warm_up_ms);
    arguments.closed_loop.time = std::chrono::milliseconds(arguments.time_ms);
    Print(RunClosedLoop(net::Origin::Parse(arguments.target), arguments.closed_loop));
  });
}

void AddStreams(CLI::App& app, Arguments& arguments) {
  CLI::App* command = AddClient(app, "streams", "Event streams at a given rate", arguments);
  command->add_option("--streams", arguments.streams.streams);
  command->add_option("--events", arguments.streams.events);
  command->add_option("--interval-us", arguments.interval_us);
  command->add_option("--ramp-ms", arguments.ramp_ms, "in which they begin");
  command->callback([&] {
    arguments.streams.ramp = std::chrono::milliseconds(arguments.ramp_ms);
    arguments.streams.interval = std::chrono::microseconds(arguments.interval_us);
    Print(RunStreams(net::Origin::Parse(arguments.target), arguments.streams));
  });
}

void AddLarge(CLI::App& app, Arguments& arguments) {
  CLI::App* command = AddClient(app, "large", "Large JSON answers", arguments);
  command->add_option("--bytes", arguments.large.bytes);
  command->add_option("--connections", arguments.large.connections);
  command->add_option("--answers", arguments.large.answers, "on each connection");
  command->callback(
      [&] { Print(RunLarge(net::Origin::Parse(arguments.target), arguments.large)); });
}

void AddWaiting(CLI::App& app, Arguments& arguments) {
  CLI::App* command =
      AddClient(app, "waiting", "Turns that wait for a version, at a sidecar", arguments);
  command->add_option("--turns", arguments.waiting.turns);
  command->add_option("--min-version", arguments.waiting.min_version)->required();
  command->add_option("--hold-ms", arguments.hold_ms, "that the engine takes to answer");
  command->callback([&] {
    arguments.waiting.hold = std::chrono::milliseconds(arguments.hold_ms);
    Print(RunWaiting(net::Origin::Parse(arguments.target), arguments.waiting));
  });
}

void AddPaced(CLI::App& app, Arguments& arguments) {
  CLI::App* command =
      AddClient(app, "paced", "Small completions at a given rate; failures are counted", arguments);
  command->add_option("--rate", arguments.paced.rate, "a second");
  command->add_option("--time-ms", arguments.time_ms);
  command->add_option("--hold-ms", arguments.paced_hold_ms, "that the engine takes to answer");
  command->add_option("--events", arguments.paced.events, "each a stream of so many; 0: none");
  command->callback([&] {
    arguments.paced.time = std::chrono::milliseconds(arguments.time_ms);
    arguments.paced.hold = std::chrono::milliseconds(arguments.paced_hold_ms);
    Print(RunPaced(net::Origin::Parse(arguments.target), arguments.paced));
  });
}

void AddGate(CLI::App& app, Arguments& arguments) {
  CLI::App* command = app.add_subcommand("gate", "Turns that wait at a gate of this process");
  command->add_option("--turns", arguments.waiting.turns);
  command->callback([&] { Print(MeasureRelease(arguments.waiting.turns)); });
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Engine and load for measuring a proxy");
  app.require_subcommand(1);
  AddEngine(app, arguments);
  AddLoad(app, arguments);
  AddStreams(app, arguments);
  AddLarge(app, arguments);
  AddWaiting(app, arguments);
  AddPaced(app, arguments);
  AddGate(app, arguments);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "isthmus-bench-proxy: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace isthmus::bench

int main(int argc, char** argv) { return isthmus::bench::Main(argc, argv); }
