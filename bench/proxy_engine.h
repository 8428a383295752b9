// An engine for the sidecar's bench: answers at once what vLLM's control routes answer, and
// completions that cost it next to nothing.
#ifndef BENCH_PROXY_ENGINE_H_
#define BENCH_PROXY_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "isthmus/net/exchange.h"
#include "isthmus/net/task.h"

namespace isthmus::bench {

// POST /v1/completions is answered by the field "bench" of its body:
//
// | field | answer |
// |---|---|
// | none | one token, with its log-probability |
// | {"events": N, "interval_us": U} | N events, one each U microseconds; each has "sequence" from 0
// | |  | and "sent_ns", the steady clock just before it was written; then "[DONE]" | | {"bytes": N}
// | JSON of about N bytes, most of them log-probabilities | | {"turn": N, "hold_ms": M} | one
// token, M milliseconds later; N and its arrival are noted |
//
// GET /bench/arrivals is {"canary_ns", "turns": [[N, steady clock in nanoseconds], …]} in order of
// arrival, since the last time that it was asked for. canary_ns: when the last completion whose
// prompt is a list of tokens was answered; after it a sidecar opens its gate.
class ProxyEngine {
 public:
  // `load`: how long a load of weights takes.
  explicit ProxyEngine(std::chrono::milliseconds load) : load_(load) {}

  net::Task<void> Handle(net::Exchange& exchange);

 private:
  struct Wish;
  struct Arrival {
    int64_t turn;
    int64_t at_ns;
  };

  net::Task<void> Complete(net::Exchange& exchange);
  net::Task<void> SendEvents(net::Exchange& exchange, const Wish& wish);
  net::Task<void> SendLarge(net::Exchange& exchange, size_t bytes);
  net::Task<void> Control(net::Exchange& exchange);
  std::string ControlAnswer(const std::string& path, const std::string& body);
  std::string Arrivals();

  std::chrono::milliseconds load_;
  bool paused_ = false;
  std::string label_ = "none";
  std::string large_;  // the last one, made once
  int64_t canary_ns_ = 0;
  std::vector<Arrival> arrivals_;
};

}  // namespace isthmus::bench

#endif  // BENCH_PROXY_ENGINE_H_
