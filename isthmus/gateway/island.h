// One island as the pool knows it, and what follows from that. Pure.
#ifndef ISTHMUS_GATEWAY_ISLAND_H_
#define ISTHMUS_GATEWAY_ISLAND_H_

#include <cstdint>
#include <memory>
#include <string>

#include "isthmus/gateway/breaker.h"
#include "isthmus/gateway/hold.h"
#include "isthmus/gateway/pool.h"

namespace isthmus::gateway {

// A slow start's share of a whole island's load: from a tenth to 1.
float ShareAfter(MonotonicTime::duration serving, milliseconds slow_start);

// What decides an island's state. The order is that of weight: the first that is true counts.
enum class Cause : uint8_t {
  kGone,
  kLeaving,
  kStopped,
  kBrokenPromise,
  kFlapping,
  kUnreachable,
  kNoReport,
  kStaleReport,
  kBreaker,
  kGateClosed,
  kNotReady,
  kOnItsWay,
  kNone,
};
IslandState StateOf(Cause cause);

struct Island {
  // Polls in a row that fail before an island does not answer: one may be lost to a busy machine.
  static constexpr uint32_t kMaxSilences = 2;

  std::string id;  // empty: the place is
  std::string instance;
  net::Origin url;
  IslandSource source = IslandSource::kRegistered;
  bool present = false;            // not gone
  bool leaving = false;            // it said so
  MonotonicTime believed_until{};  // registered: then it is gone
  MonotonicTime gone_at{};         // if it is

  std::shared_ptr<const IslandReport> report;  // never null
  bool reported = false;                       // else `report` is empty
  MonotonicTime reported_at{};
  uint32_t silences = 0;  // polls in a row that failed
  std::string silence;    // why
  MonotonicTime polled_at = MonotonicTime::min();
  bool refused = false;  // since its report

  Breaker breaker;
  Hold suspicion{{std::chrono::seconds(30), std::chrono::minutes(10), std::chrono::minutes(10)}};
  FlapDamper damper;
  bool fresh = true;  // has served nothing since it came
  MonotonicTime serving_since{};
  uint32_t inherited = 0;  // in flight at its earlier instance: their failures are not its own

  // Its own process, or another at its address, is there anew: what was known of it is void.
  void Restart(MonotonicTime now, uint32_t in_flight);
  void TakeReport(IslandReport said, MonotonicTime now);
  // It was asked, and answered; that its own word came proves only the way back.
  void OnAnswer(MonotonicTime now);

  // Whether its word on the newest version counts.
  bool IsWitness(MonotonicTime now) const { return present && reported && !suspicion.Active(now); }
  Cause Judge(const PoolOptions& options, MonotonicTime now) const;
  // Why it gets no requests; empty if it does.
  std::string Reason(Cause cause, MonotonicTime now) const;
  float Share(const PoolOptions& options, MonotonicTime now) const;
  // How long after its last poll it should be asked again.
  MonotonicTime::duration PollInterval(const PoolOptions& options, milliseconds every) const;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_ISLAND_H_
