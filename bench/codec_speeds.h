// The codec's loops on one core, against memcpy and memcmp of the same bytes in the same round.
#ifndef BENCH_CODEC_SPEEDS_H_
#define BENCH_CODEC_SPEEDS_H_

#include <string>
#include <vector>

#include "bench/step_pairs.h"

namespace isthmus::bench {

struct SpeedOptions {
  size_t rounds = 11;
  std::vector<std::string> simd;  // names of codec::SimdTargets, measured one after another
};

// Prints rows for each SIMD target; their cases are "LABEL on TARGET". workbench.h says what each
// loop contains. Uses the process's SIMD target: nothing else may code meanwhile.
void PrintSpeeds(const StepPair& pair, const SpeedOptions& options);

}  // namespace isthmus::bench

#endif  // BENCH_CODEC_SPEEDS_H_
