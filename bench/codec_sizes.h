// The bits that each way to store a pair's changes takes.
#ifndef BENCH_CODEC_SIZES_H_
#define BENCH_CODEC_SIZES_H_

#include "bench/step_pairs.h"

namespace isthmus::bench {

// Prints rows of: density; the whole patch and its payloads alone, for each encoding; peers'
// schemes; entropies; and the ratios that have goals. Bits are per changed element.
void PrintSizes(const StepPair& pair, ThreadPool& pool);

}  // namespace isthmus::bench

#endif  // BENCH_CODEC_SIZES_H_
