// Generated steps of what modelgen.h does not make: quantised experts, and an embedding most of
// whose rows were in no batch.
#ifndef BENCH_SERVED_MODEL_H_
#define BENCH_SERVED_MODEL_H_

#include <cstdint>

#include "isthmus/base/file.h"
#include "isthmus/base/thread_pool.h"

namespace isthmus::bench {

enum class ServedFormat {
  kFp8,            // projection.h, as are the next two
  kInt4,           // codes packed in I32
  kFp4,            // codes as F4
  kIdleEmbedding,  // BF16, of which nine tenths of the rows do not change
};

struct ServedModelOptions {
  fs::path out;
  ServedFormat format = ServedFormat::kFp8;
  uint64_t bytes = 0;  // of a step's codes, or of the embedding; at least
  uint64_t seed = 7;
  double learning_rate = 1e-6;
  size_t warmup = 20;
};

// Writes out/step-0 and out/step-1, checkpoints of one file each: the weights of modelgen_kernel.h
// after `warmup` and warmup + 1 updates, their BF16 form projected to the format (matrices of a
// mixture of experts, gate, up and down of 2048 x 1408 weights), or an embedding of rows of 2048.
// The files depend on nothing but the options. Memory: a matrix at both steps per thread.
void GenerateServedModel(const ServedModelOptions& options, ThreadPool& pool);

}  // namespace isthmus::bench

#endif  // BENCH_SERVED_MODEL_H_
