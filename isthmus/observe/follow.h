// Counters for Prometheus of what is counted elsewhere.
#ifndef ISTHMUS_OBSERVE_FOLLOW_H_
#define ISTHMUS_OBSERVE_FOLLOW_H_

#include <prometheus/counter.h>

#include <algorithm>
#include <cstdint>

namespace isthmus::observe {

// Brings a counter up to a count that never shrinks.
inline void Follow(prometheus::Counter& counter, uint64_t count) {
  counter.Increment(std::max(0.0, static_cast<double>(count) - counter.Value()));
}

}  // namespace isthmus::observe

#endif  // ISTHMUS_OBSERVE_FOLLOW_H_
