#include "isthmus/gateway/load_meter.h"

#include <algorithm>

namespace isthmus::gateway {
namespace {

// Nearest rank.
double QuantileOf(const std::vector<double>& sorted, double fraction) {
  const auto rank = static_cast<size_t>(fraction * static_cast<double>(sorted.size()));
  return sorted[std::min(rank, sorted.size() - 1)];
}

uint64_t& CountOf(TurnEnd end, RequestTotals* totals) {
  switch (end) {
    case TurnEnd::kServed:
      return totals->served;
    case TurnEnd::kShed:
      return totals->shed;
    case TurnEnd::kNotReady:
    case TurnEnd::kRevoked:
    case TurnEnd::kInvalid:
    case TurnEnd::kBlocked:
      return totals->refused;
    case TurnEnd::kUnavailable:
    case TurnEnd::kDeadline:
    case TurnEnd::kFailed:
      return totals->failed;
    case TurnEnd::kDisconnected:
      break;
  }
  return totals->abandoned;
}

}  // namespace

void LoadMeter::Observe(const Turn& turn) {
  ++totals_.received;
  ++CountOf(turn.end, &totals_);
  if (turn.attempts > 1) totals_.retried += turn.attempts - 1;
  if (turn.end == TurnEnd::kServed) Keep(turn.first_byte_ms);
}

void LoadMeter::Keep(double first_byte_ms) {
  if (++skipped_ < stride_) return;
  skipped_ = 0;
  first_bytes_.push_back(first_byte_ms);
  if (first_bytes_.size() < kMaxTimes) return;
  for (size_t i = 0; i < kMaxTimes / 2; ++i) first_bytes_[i] = first_bytes_[2 * i];
  first_bytes_.resize(kMaxTimes / 2);
  stride_ *= 2;
}

GatewayLoad LoadMeter::Take(uint64_t in_flight, uint64_t queued) {
  GatewayLoad load;
  load.totals = totals_;
  // Those that are not at their end were received too.
  load.totals.received += in_flight + queued;
  load.in_flight = in_flight;
  load.queued = queued;
  if (!first_bytes_.empty()) {
    std::ranges::sort(first_bytes_);
    load.first_byte = Quantiles{QuantileOf(first_bytes_, 0.5), QuantileOf(first_bytes_, 0.99)};
  }
  first_bytes_.clear();
  stride_ = 1;
  skipped_ = 0;
  return load;
}

}  // namespace isthmus::gateway
