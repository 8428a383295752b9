// Asks islands for their /server_info when the pool says that it is time.
#ifndef ISTHMUS_GATEWAY_PROBER_H_
#define ISTHMUS_GATEWAY_PROBER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "isthmus/gateway/pool.h"
#include "isthmus/net/client.h"
#include "isthmus/net/task.h"
#include "isthmus/net/tls.h"

namespace isthmus::gateway {

struct ProberOptions {
  milliseconds every{1'000};  // of one island; see Pool::DuePolls
  milliseconds limit{2'000};  // for one answer, the connection included
  size_t at_once = 64;        // questions under way
  std::shared_ptr<const net::ClientTls> tls = nullptr;
};

struct ProberCounters {
  uint64_t asked = 0;
  uint64_t failed = 0;  // of these: no answer, or one that is no report
};

// Used on its loop's thread only, which is the pool's too. The pool must live until Stop.
class Prober {
 public:
  // `on_news` is called after each report that the pool took in, or that failed.
  Prober(net::Loop& loop, ProberOptions options, Pool& pool, std::function<void()> on_news);
  ~Prober();
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  // The islands' token for operators, from now on; empty: none.
  void set_token(std::string token);
  void Start();
  // Nothing is asked any more, and nothing told to the pool.
  void Stop();

  const ProberCounters& counters() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_PROBER_H_
