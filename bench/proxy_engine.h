// An engine for the benches of sidecar and gateway: answers at once what vLLM's control routes
// answer, and completions that cost it next to nothing. With a run it is an island: it also answers
// a sidecar's /server_info, and stamps.
#ifndef BENCH_PROXY_ENGINE_H_
#define BENCH_PROXY_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
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
  // `load`: how long a load of weights takes. `run`: the run that it serves version 1 of, as an
  // island; empty: it is an engine.
  ProxyEngine(std::chrono::milliseconds load, std::string run);

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
  // Stamped, if it is an island's.
  net::ResponseHead HeadOf(std::string_view type, bool whole) const;
  net::Task<void> AnswerJson(net::Exchange& exchange, std::string_view body);
  std::string Arrivals();

  std::chrono::milliseconds load_;
  std::string run_;
  bool paused_ = false;
  std::string label_ = "none";
  std::string large_;  // the last one, made once
  int64_t canary_ns_ = 0;
  std::vector<Arrival> arrivals_;
};

}  // namespace isthmus::bench

#endif  // BENCH_PROXY_ENGINE_H_
