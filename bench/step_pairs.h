// The pairs of checkpoints that the codec is measured on.
#ifndef BENCH_STEP_PAIRS_H_
#define BENCH_STEP_PAIRS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/entropy.h"
#include "bench/peer_schemes.h"
#include "isthmus/base/file.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::bench {

// Two checkpoints with the same tensors.
struct StepPair {
  std::string label;
  bool generated = false;
  tensor::Checkpoint before;
  tensor::Checkpoint after;

  std::vector<TensorPair> Tensors() const;
  ChangeCounts CountChanges(ThreadPool& pool) const;
};

struct PairPlaces {
  fs::path scratch;  // of generated pairs; emptied after each
  fs::path real;     // holds bf16/step-37 ... fp8/step-40; may be empty: no real pairs
  uint64_t bytes = uint64_t{256} << 20;  // of a generated step: far more than a core's caches
};

// Opens or generates one pair after another and hands it to `measure`. Labels that do not contain
// `filter` are left out; `real` says whether real pairs are wanted.
void ForEachPair(const PairPlaces& places, const std::string& filter, bool real, ThreadPool& pool,
                 const std::function<void(const StepPair&)>& measure);

// Labels that others refer to.
inline constexpr std::string_view kBf16At015 = "BF16 0.15 %";
inline constexpr std::string_view kBf16At1 = "BF16 1 %";
inline constexpr std::string_view kFp8At01 = "FP8 0.1 %";
inline constexpr std::string_view kRealBf16One = "real BF16 37 to 38";
inline constexpr std::string_view kRealBf16Three = "real BF16 37 to 40";
inline constexpr std::string_view kRealFp8One = "real FP8 37 to 38";

}  // namespace isthmus::bench

#endif  // BENCH_STEP_PAIRS_H_
