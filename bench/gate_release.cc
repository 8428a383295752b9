#include "bench/gate_release.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <vector>

#include "bench/proxy_load.h"
#include "isthmus/sidecar/gate_keeper.h"

namespace isthmus::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kOpenings = 9;

struct Seen {
  size_t count = 0, in_order = 0;
  Clock::time_point last;
};

net::Task<void> Wait(sidecar::GateKeeper& keeper, size_t turn, Seen* seen) {
  lane::Request request;
  request.constraint.min_version = 2;
  request.wait_ms = std::chrono::minutes(1);
  const sidecar::Admission admission = co_await keeper.Admit(request);
  if (admission.admitted() && turn == seen->count) ++seen->in_order;
  ++seen->count;
  seen->last = Clock::now();
}

// Milliseconds.
double Open(size_t turns, size_t* in_order) {
  net::Loop loop(1);
  sidecar::GateOptions options;
  options.run = "bench";
  sidecar::GateKeeper keeper(loop, options);
  keeper.Learn(1);
  keeper.Open(1);
  Seen seen;
  for (size_t turn = 0; turn < turns; ++turn) {
    net::asio::co_spawn(loop, Wait(keeper, turn, &seen), net::asio::detached);
  }
  loop.poll();
  keeper.Learn(2);
  keeper.Close(sidecar::DrainPolicy::kInPlace, 2);
  keeper.BeginCommit();
  keeper.Resume();
  const auto begin = Clock::now();
  keeper.Open(2);
  loop.poll();
  *in_order = std::min(*in_order, seen.in_order);
  return std::chrono::duration<double, std::milli>(seen.last - begin).count();
}

}  // namespace

boost::json::object MeasureRelease(size_t turns) {
  std::vector<double> milliseconds;
  size_t in_order = turns;
  for (size_t i = 0; i < kOpenings; ++i) milliseconds.push_back(Open(turns, &in_order));
  return {{"release_ms", Quantile(milliseconds, 0.5)}, {"in_order", in_order}};
}

}  // namespace isthmus::bench
