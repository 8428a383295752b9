// What the fleet did in the last 24 hours, as the dashboard draws it: GET /v1/fleet/history. Shapes
// and bounds: docs/gateway.md. Pure: no I/O, no clock. Not thread-safe.
#ifndef ISTHMUS_GATEWAY_HISTORY_H_
#define ISTHMUS_GATEWAY_HISTORY_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/gateway/pool.h"
#include "isthmus/gateway/snapshot.h"

namespace isthmus::gateway {

// Since the gateway began. Each request that was received ends in one of served, refused, shed,
// failed and abandoned; until then it is in flight or queued.
struct RequestTotals {
  uint64_t received = 0;
  uint64_t served = 0;     // an island's answer was passed on to its end
  uint64_t refused = 0;    // 400, 409, 410 and their like: what it asks cannot be had
  uint64_t shed = 0;       // 429
  uint64_t failed = 0;     // 500, 502, 503, 504, or cut off
  uint64_t abandoned = 0;  // its client went away
  uint64_t retried = 0;    // sent once more, to another island: no end
  uint64_t tokens = 0;     // of output, where answers or events say how many
};

struct Quantiles {
  double p50 = 0;
  double p99 = 0;
};

// What the gateway itself counts, at one instant.
struct GatewayLoad {
  RequestTotals totals;
  uint64_t in_flight = 0;
  uint64_t queued = 0;
  // Milliseconds, of requests since the last sample; nullopt if there were none.
  std::optional<Quantiles> first_byte;  // from the request's arrival to the first byte sent back
  std::optional<Quantiles> added;       // the part of it that the gateway is to blame for
};

// The query of GET /v1/fleet/history.
struct HistoryQuery {
  std::chrono::seconds since{1'800};  // 1 s to 24 h
  std::string after;                  // the cursor of an earlier answer; empty: all
};
// `query` is what follows the "?"; it may be empty. kInvalid, naming the parameter.
HistoryQuery ReadHistoryQuery(std::string_view query);

class History {
 public:
  static constexpr std::chrono::milliseconds kInterval{2'000};  // of calls of Record

  // `instance` names this start of the gateway: cursors of another one are not known here.
  History(std::string instance, WallTime wall, MonotonicTime now);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // One sample, every kInterval: `facts` are Pool::Facts, `runs` are Snapshot::runs. Totals must
  // not shrink. Instants are told by the wall clock of the beginning and `now`, so they never go
  // back. About 1 ms for 1,000 islands.
  void Record(const std::vector<IslandFacts>& facts, const std::vector<RunView>& runs,
              const GatewayLoad& load, MonotonicTime now);

  // The answer's body.
  std::string Answer(const HistoryQuery& query, MonotonicTime now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_HISTORY_H_
