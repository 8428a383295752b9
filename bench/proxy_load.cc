#include "bench/proxy_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <cstdio>
#include <string>

#include "bench/load_connection.h"
#include "isthmus/base/error.h"

namespace isthmus::bench {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

// Far above anything measured here: a run that hangs ends.
constexpr std::chrono::seconds kPatience{60};

double MicrosecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

std::vector<LoadConnection> Connect(const net::Origin& target, size_t count) {
  std::vector<LoadConnection> connections;
  for (size_t i = 0; i < count; ++i) connections.emplace_back(target);
  return connections;
}

void Watch(const std::vector<LoadConnection>& connections, LoadPoller* poller) {
  for (size_t i = 0; i < connections.size(); ++i) {
    poller->Add(connections[i], static_cast<uint32_t>(i));
  }
}

std::span<const uint32_t> WaitPatiently(LoadPoller* poller) {
  const auto ready = poller->Wait(kPatience);
  if (ready.empty()) Throw(ErrorCode::kUnavailable, "wait for answers: nothing came in time");
  return ready;
}

}  // namespace

double Quantile(std::vector<double> values, double share) {
  const auto rank = std::ceil(share * static_cast<double>(values.size()));
  const auto at = values.begin() + std::max<ptrdiff_t>(0, static_cast<ptrdiff_t>(rank) - 1);
  std::ranges::nth_element(values, at);
  return *at;
}

json::object RunClosedLoop(const net::Origin& target, const ClosedLoop& options) {
  std::vector<LoadConnection> connections = Connect(target, options.connections);
  LoadPoller poller;
  Watch(connections, &poller);
  const std::string request = CompletionRequest(target, kSmallBody);
  std::vector<Clock::time_point> sent(connections.size());
  std::vector<double> latencies;
  const auto begin = Clock::now() + options.warm_up;
  const auto end = begin + options.time;
  for (size_t i = 0; i < connections.size(); ++i) {
    sent[i] = Clock::now();
    connections[i].Send(request);
  }
  while (Clock::now() < end) {
    for (const uint32_t i : WaitPatiently(&poller)) {
      if (!connections[i].Receive([](std::string_view) {})) continue;
      if (sent[i] >= begin) latencies.push_back(MicrosecondsSince(sent[i]));
      sent[i] = Clock::now();
      connections[i].Send(request);
    }
  }
  const double seconds = MicrosecondsSince(begin) / 1e6;
  if (latencies.empty()) Throw(ErrorCode::kUnavailable, "measure: no answer came in time");
  return {{"requests", latencies.size()},
          {"per_second", static_cast<double>(latencies.size()) / seconds},
          {"p50_us", Quantile(latencies, 0.5)},
          {"p99_us", Quantile(latencies, 0.99)}};
}

json::object RunLarge(const net::Origin& target, const LargeAnswers& options) {
  std::vector<LoadConnection> connections = Connect(target, options.connections);
  LoadPoller poller;
  Watch(connections, &poller);
  const std::string body = fmt::format(R"({{"prompt":"x","bench":{{"bytes":{}}}}})", options.bytes);
  const std::string request = CompletionRequest(target, body);
  std::vector<size_t> left(connections.size(), options.answers);
  uint64_t bytes = 0;
  const auto begin = Clock::now();
  for (LoadConnection& connection : connections) connection.Send(request);
  for (size_t open = connections.size(); open > 0;) {
    for (const uint32_t i : WaitPatiently(&poller)) {
      if (!connections[i].Receive([&](std::string_view piece) { bytes += piece.size(); })) continue;
      if (--left[i] > 0) {
        connections[i].Send(request);
      } else {
        --open;
      }
    }
  }
  const double seconds = MicrosecondsSince(begin) / 1e6;
  if (bytes < options.bytes * options.answers * options.connections) {
    Throw(ErrorCode::kCorrupt, "measure large answers: {} bytes are too few", bytes);
  }
  return {{"bytes", bytes}, {"gigabytes_per_second", static_cast<double>(bytes) / 1e9 / seconds}};
}

json::object RunWaiting(const net::Origin& target, const WaitingTurns& options) {
  std::vector<LoadConnection> connections = Connect(target, options.turns);
  LoadConnection observer(target);
  const std::string fields =
      fmt::format("Isthmus-Min-Version: {}\r\nIsthmus-Wait-Ms: 60000\r\n", options.min_version);
  const std::string ask =
      fmt::format("GET /server_info HTTP/1.1\r\nHost: {}\r\n\r\n", target.Authority());
  for (size_t i = 0; i < connections.size(); ++i) {
    const std::string body = fmt::format(R"({{"prompt":"x","bench":{{"turn":{},"hold_ms":{}}}}})",
                                         i, options.hold.count());
    connections[i].Send(CompletionRequest(target, body, fields));
    int64_t waiting = 0;
    while (waiting <= static_cast<int64_t>(i)) {
      observer.Send(ask);
      waiting = json::parse(observer.ReceiveAll()).at("waiting").to_number<int64_t>();
    }
  }
  fmt::print("waiting\n");
  std::fflush(stdout);
  for (LoadConnection& connection : connections) connection.ReceiveAll();
  return {{"turns", connections.size()}};
}

}  // namespace isthmus::bench
