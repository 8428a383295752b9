// What the benches of sidecar and gateway send, and what it measures of the answers.
#ifndef BENCH_PROXY_LOAD_H_
#define BENCH_PROXY_LOAD_H_

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "isthmus/net/http.h"

namespace isthmus::bench {

// About as long as a chat turn that is sent without its history.
inline constexpr std::string_view kSmallBody =
    R"({"model":"bench","prompt":"What is the shortest proof that there are infinitely many primes?)"
    R"( Answer in one sentence, then check it.","max_tokens":16,"temperature":1.0,"top_p":1.0,)"
    R"("logprobs":1,"seed":7})";

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
  std::chrono::milliseconds ramp{1000};
};
// Event streams, begun evenly over the ramp, so that their events do not come all at once. Fails
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

struct Paced {
  size_t rate = 200;  // requests a second
  std::chrono::milliseconds time{1000};
  std::chrono::milliseconds hold{0};  // before the engine answers, or between two events
  int64_t events = 0;                 // not 0: each request asks for a stream of so many
};
// Small completions that begin at even times, whatever becomes of those before; each on a
// connection that no other request uses at that time. {"requests", "whole", "failed", "cut_off",
// "first_failure", "p50_us", "p99_us"}: `failed` had no byte of an answer of status 200, `cut_off`
// some. Latencies are of whole answers.
boost::json::object RunPaced(const net::Origin& target, const Paced& options);

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
