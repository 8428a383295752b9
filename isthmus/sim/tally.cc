#include "isthmus/sim/tally.h"

#include <cmath>

namespace isthmus::sim {

uint64_t LagHistogram::quantile(double part) const {
  const double wanted = std::ceil(part * static_cast<double>(count_));
  uint64_t seen = 0;
  for (uint64_t lag = 0; lag < kMost; ++lag) {
    seen += counts_[lag];
    if (static_cast<double>(seen) >= wanted) return lag;
  }
  return kMost;
}

SpentTimes Tally::spent() const {
  SpentTimes sum{};
  for (const RegionTally& region : regions) {
    for (size_t kind = 0; kind < kSpentKinds; ++kind) sum[kind] += region.spent[kind];
  }
  return sum;
}

}  // namespace isthmus::sim
