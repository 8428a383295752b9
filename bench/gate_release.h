// How fast a gate lets in what waits, without the network.
#ifndef BENCH_GATE_RELEASE_H_
#define BENCH_GATE_RELEASE_H_

#include <boost/json/object.hpp>
#include <cstddef>

namespace isthmus::bench {

// From the opening of a gate until the last of `turns` coroutines that waited for the version has
// its admission; the median of several openings. {"release_ms", "in_order"}: the turns that were
// admitted in the order of their arrival, in the worst opening.
boost::json::object MeasureRelease(size_t turns);

}  // namespace isthmus::bench

#endif  // BENCH_GATE_RELEASE_H_
