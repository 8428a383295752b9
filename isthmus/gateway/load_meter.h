// What a gateway counts of its requests, for its history: totals, and how long first bytes took
// since it was last asked. Pure; not thread-safe.
#ifndef ISTHMUS_GATEWAY_LOAD_METER_H_
#define ISTHMUS_GATEWAY_LOAD_METER_H_

#include <vector>

#include "isthmus/gateway/history.h"
#include "isthmus/gateway/turn.h"

namespace isthmus::gateway {

class LoadMeter {
 public:
  // A request has ended.
  void Observe(const Turn& turn);

  // Since the last call, for what is no total.
  GatewayLoad Take(uint64_t in_flight, uint64_t queued);

 private:
  // Of more answers than these within a sample every second, fourth, … counts.
  static constexpr size_t kMaxTimes = 16'384;

  void Keep(double first_byte_ms);

  RequestTotals totals_;
  std::vector<double> first_bytes_;  // milliseconds
  size_t stride_ = 1;
  size_t skipped_ = 0;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_LOAD_METER_H_
