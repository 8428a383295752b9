// The arithmetic of a generated training run: AdamW on FP32 masters, served in BF16.
//
// Per parameter, with weight w, moments m and v (both 0 at first), learning rate lr, update t =
// 1, 2... (AdamW: Loshchilov & Hutter, arXiv:1711.05101, Algorithm 2, weight decay 0, in PyTorch's
// form):
//   g = s (0.05 d + n_t)
//   m = b1 m + (1 - b1) g                 b1 = 0.9
//   v = b2 v + (1 - b2) g^2               b2 = 0.999
//   w = w - lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + 1e-8)
//   served = w rounded to nearest even to BF16
// The gradient is synthetic: s lognormal, e^N(ln 1e-5, 1) (over 5e8 parameters a gradient of norm
// 0.6, below the usual clip of 1), d ~ N(0, 1) fixed per parameter, n_t ~ N(0, 1) new at each
// update.
//
// Randomness is counter-based (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011): a draw is a hash of (seed, tensor, block, stream, element in block). So results depend
// neither on threads nor on the order of blocks; nor on the SIMD target, because only operations
// that IEEE 754 rounds correctly are used, never contracted (modelgen_kernel.cc needs
// -ffp-contract=off).
// - N(0, 1) for w, s and d is the sum of six 16-bit uniforms, n_t that of four 8-bit ones
//   (Irwin-Hall): the tails end at 4.2 and 3.5 sigma, which AdamW's normalised step does not see.
// - e^x for s is Schraudolph's (Neural Computation 11(4), 1999), piecewise linear: 6 % off at most.
#ifndef BENCH_MODELGEN_KERNEL_H_
#define BENCH_MODELGEN_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isthmus::bench {

// A tensor's elements are drawn in blocks of this many, the last one shorter. Part of what a seed
// means: changing it changes every generated model.
inline constexpr size_t kBlockElements = size_t{1} << 16;
// Blocks have a multiple of this many elements: more than the lanes of any SIMD target.
inline constexpr size_t kLaneMultiple = 64;

// The update-dependent factors of one AdamW update.
struct UpdateRates {
  float step_size = 0;          // lr / (1 - b1^t)
  float second_correction = 0;  // 1 / (1 - b2^t)
};
// For t = 1 to `count`.
std::vector<UpdateRates> AdamRates(double learning_rate, size_t count);

struct BlockPlace {
  uint64_t seed = 0;
  uint64_t tensor = 0;
  uint64_t block = 0;
};

// Weights before the first update: N(mean, deviation^2).
struct InitialWeights {
  float mean = 0;
  float deviation = 0;
};

// Trains one block and writes what is served after warmup, warmup + 1, ... rates.size() updates:
// `served` holds count elements for each of these rates.size() - warmup + 1 steps, the steps one
// after another. count is a multiple of kLaneMultiple, at most kBlockElements. Thread-safe.
void TrainBlock(const BlockPlace& place, const InitialWeights& initial,
                std::span<const UpdateRates> rates, size_t warmup, std::span<uint16_t> served);

}  // namespace isthmus::bench

#endif  // BENCH_MODELGEN_KERNEL_H_
