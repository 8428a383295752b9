// Checkpoints of consecutive training steps, made up: for benchmarks and demonstrations that need
// more, or larger, steps than anyone can download.
#ifndef BENCH_MODELGEN_H_
#define BENCH_MODELGEN_H_

#include <cstdint>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/base/thread_pool.h"

namespace isthmus::bench {

struct ModelgenOptions {
  fs::path out;
  uint64_t bytes = 0;  // of a step's tensors, about
  size_t steps = 4;
  uint64_t seed = 7;
  double learning_rate = 1e-6;
  size_t warmup = 20;  // updates before step 0: the density of changes has settled by then
};

struct GeneratedStep {
  fs::path directory;
  uint64_t file_bytes = 0;  // all shards
  uint64_t elements = 0;
  uint64_t changed = 0;  // elements whose bits differ from the step before; of step 0: none
};

// Writes out/step-0 ... out/step-(steps - 1), Hugging Face checkpoint directories of one BF16 model
// (modelgen_layout.h) after `warmup`, warmup + 1, ... updates of AdamW (modelgen_kernel.h).
// Matrices begin as N(0, 0.025^2), norms as N(1, 0.1^2). The files depend on nothing but the
// options. Memory: a block of 64 Ki parameters per thread, whatever the model's size. The shards
// get their full size first, and the index files, without which they are no checkpoint, are written
// last. Not durable: nothing is synced. Throws kConflict if `out` exists and is not an empty
// directory, kInvalid for impossible options, kUnavailable if the disk is full; what was written so
// far stays.
std::vector<GeneratedStep> GenerateModel(const ModelgenOptions& options, ThreadPool& pool);

}  // namespace isthmus::bench

#endif  // BENCH_MODELGEN_H_
