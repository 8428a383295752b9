// What the sidecar's bench sends, and what it measures of the answers.
#ifndef BENCH_PROXY_LOAD_H_
#define BENCH_PROXY_LOAD_H_

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <vector>

#include "isthmus/net/http.h"

namespace isthmus::bench {

// The value that a share of `values`, which must not be empty, does not exceed.
double Quantile(std::vector<double> values, double share);

struct ClosedLoop {
  size_t connections = 1;
  std::chrono::milliseconds warm_up{200};  // not counted
  std::chrono::milliseconds time{1000};
};
// Small completions: each connection sends the next request as soon as it has its answer.
// {"requests", "per_second", "p50_us", "p99_us"}.
boost::json::object RunClosedLoop(const net::Origin& target, const ClosedLoop& options);

struct Streams {
  size_t streams = 1000;
  int64_t events = 100;
  std::chrono::microseconds interval{50'000};
};
// Event streams, begun evenly over a second, so that their events do not come all at once. Fails
// unless every stream has all of its events in order. An event's latency is from the engine's
// writing to its arrival here; those that came before the last stream began are not counted.
// {"events", "p50_us", "p99_us", "max_us"}.
boost::json::object RunStreams(const net::Origin& target, const Streams& options);

struct LargeAnswers {
  size_t bytes = size_t{64} << 20;
  size_t connections = 1;
  size_t answers = 4;  // on each connection
};
// {"bytes", "gigabytes_per_second"}, all connections together.
boost::json::object RunLarge(const net::Origin& target, const LargeAnswers& options);

struct WaitingTurns {
  size_t turns = 1000;
  uint64_t min_version = 0;             // that they wait for
  std::chrono::milliseconds hold{500};  // before the engine answers one
};
// Sends turns to a sidecar, each when the one before stands in its line, and prints a line once all
// of them do; ends when all are answered. {"turns"}.
boost::json::object RunWaiting(const net::Origin& target, const WaitingTurns& options);

}  // namespace isthmus::bench

#endif  // BENCH_PROXY_LOAD_H_
