// One generic kernel, compiled for every SIMD target (see hwy/examples/skeleton.cc). A vector of
// parameters goes through all updates in registers: no state is ever stored.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/modelgen_kernel.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "bench/modelgen_kernel.h"

#ifndef BENCH_MODELGEN_KERNEL_CC_
#define BENCH_MODELGEN_KERNEL_CC_

namespace isthmus::bench {

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr float kEpsilon = 1e-8f;

constexpr float kDrift = 0.05f;
constexpr float kScaleLog2Median = -16.609640f;   // log2 1e-5
constexpr float kScaleLog2Deviation = 1.442695f;  // log2 e

// Sum of six 16-bit uniforms: mean 6 * 65535 / 2, variance 6 * (65536^2 - 1) / 12.
constexpr size_t kGaussianHashes = 3;
constexpr int32_t kGaussianMean = 196605;
constexpr float kGaussianUnit = 1 / 46340.95f;
// Sum of four 8-bit uniforms: mean 4 * 255 / 2, variance 4 * (256^2 - 1) / 12.
constexpr int32_t kNoiseMean = 510;
constexpr float kNoiseUnit = 1 / 147.8005f;

struct StreamKey {
  uint32_t before = 0;
  uint32_t within = 0;
};

struct BlockRun {
  InitialWeights initial;
  const UpdateRates* rates = nullptr;
  const StreamKey* noise = nullptr;  // one per update, as the rates
  size_t warmup = 0;
  size_t updates = 0;
  size_t count = 0;
  uint16_t* served = nullptr;
  StreamKey weight[kGaussianHashes];
  StreamKey scale[kGaussianHashes];
  StreamKey direction[kGaussianHashes];
};

}  // namespace isthmus::bench

#endif  // BENCH_MODELGEN_KERNEL_CC_

HWY_BEFORE_NAMESPACE();
namespace isthmus::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
using U32 = hn::RebindToUnsigned<F32>;
using VF = hn::Vec<F32>;
using VI = hn::Vec<I32>;
using VU = hn::Vec<U32>;

// 32 bits of the stream for each element: Wellons' hash lowbias32
// (github.com/skeeto/hash-prospector) with a 64-bit key worked in at two places.
HWY_INLINE VU Draw(VU element, StreamKey key) {
  const U32 d;
  VU x = hn::Add(element, hn::Set(d, key.before));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(d, 0x7FEB352Du));
  x = hn::Xor(x, hn::Set(d, key.within));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(d, 0x846CA68Bu));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

HWY_INLINE VF Centred(VU sum, int32_t mean) {
  const I32 d;
  return hn::ConvertTo(F32(), hn::Sub(hn::BitCast(d, sum), hn::Set(d, mean)));
}

HWY_INLINE VF Gaussian(VU element, const StreamKey* keys) {
  const U32 d;
  VU sum = hn::Zero(d);
  for (size_t i = 0; i < kGaussianHashes; ++i) {
    const VU x = Draw(element, keys[i]);
    sum = hn::Add(sum, hn::Add(hn::ShiftRight<16>(x), hn::And(x, hn::Set(d, 0xFFFFu))));
  }
  return hn::Mul(Centred(sum, kGaussianMean), hn::Set(F32(), kGaussianUnit));
}

// In units of kNoiseUnit.
HWY_INLINE VF Noise(VU element, StreamKey key) {
  const U32 d;
  const VU bytes = hn::Set(d, 0x00FF00FFu);
  const VU x = Draw(element, key);
  const VU pairs = hn::Add(hn::And(x, bytes), hn::And(hn::ShiftRight<8>(x), bytes));
  const VU sum = hn::Add(hn::ShiftRight<16>(pairs), hn::And(pairs, hn::Set(d, 0xFFFFu)));
  return Centred(sum, kNoiseMean);
}

// 2^x: x plus the exponent's bias, in units of the last mantissa bit, is the number's bits.
HWY_INLINE VF Exp2(VF x) {
  const F32 d;
  const VF bits = hn::Mul(hn::Add(x, hn::Set(d, 127.0f)), hn::Set(d, 8388608.0f));
  return hn::BitCast(d, hn::ConvertTo(I32(), bits));
}

// kLanes parameters.
struct Parameters {
  VF weight;
  VF first;        // moment
  VF second;       // moment
  VF noise_scale;  // s, of noise in units of kNoiseUnit
  VF drift;        // 0.05 s d
};

HWY_INLINE Parameters Start(const BlockRun& run, VU element) {
  const F32 d;
  const VF exponent =
      hn::Add(hn::Mul(Gaussian(element, run.scale), hn::Set(d, kScaleLog2Deviation)),
              hn::Set(d, kScaleLog2Median));
  const VF scale = Exp2(exponent);
  const VF spread = hn::Mul(Gaussian(element, run.weight), hn::Set(d, run.initial.deviation));
  return {hn::Add(spread, hn::Set(d, run.initial.mean)), hn::Zero(d), hn::Zero(d),
          hn::Mul(scale, hn::Set(d, kNoiseUnit)),
          hn::Mul(hn::Mul(scale, hn::Set(d, kDrift)), Gaussian(element, run.direction))};
}

// average + fresh share, the fresh share being (1 - beta) of `fresh`.
HWY_INLINE VF Decayed(VF average, double beta, VF fresh) {
  const F32 d;
  return hn::Add(hn::Mul(average, hn::Set(d, static_cast<float>(beta))),
                 hn::Mul(fresh, hn::Set(d, static_cast<float>(1 - beta))));
}

HWY_INLINE void Update(const UpdateRates& rates, VF noise, Parameters* p) {
  const F32 d;
  const VF gradient = hn::Add(hn::Mul(noise, p->noise_scale), p->drift);
  p->first = Decayed(p->first, kBeta1, gradient);
  p->second = Decayed(p->second, kBeta2, hn::Mul(gradient, gradient));
  const VF root = hn::Sqrt(hn::Mul(p->second, hn::Set(d, rates.second_correction)));
  const VF step =
      hn::Div(hn::Mul(p->first, hn::Set(d, rates.step_size)), hn::Add(root, hn::Set(d, kEpsilon)));
  p->weight = hn::Sub(p->weight, step);
}

// To nearest even; the weights are finite.
HWY_INLINE void StoreBf16(VF weight, uint16_t* out) {
  const U32 d;
  const VU bits = hn::BitCast(d, weight);
  const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  const VU rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFFu))));
  // The values fit, so the saturating conversion leaves them alone.
  const hn::Rebind<uint16_t, I32> narrow;
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(I32(), rounded)), narrow, out);
}

void Train(const BlockRun& run) {
  for (size_t i = 0; i < run.count; i += hn::Lanes(F32())) {
    const VU element = hn::Iota(U32(), static_cast<uint32_t>(i));
    Parameters parameters = Start(run, element);
    uint16_t* out = run.served + i;
    for (size_t t = 0;; ++t) {
      if (t >= run.warmup) {
        StoreBf16(parameters.weight, out);
        out += run.count;
      }
      if (t == run.updates) break;
      Update(run.rates[t], Noise(element, run.noise[t]), &parameters);
    }
  }
}

}  // namespace isthmus::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::bench {
namespace {

// SplitMix64's output function (Steele, Lea & Flood, OOPSLA 2014), from zero as its seed.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Deals out a block's streams, in an order that is part of what a seed means.
class Streams {
 public:
  explicit Streams(const BlockPlace& place)
      : block_(Mix(Mix(Mix(place.seed) ^ place.tensor) ^ place.block)) {}

  StreamKey Next() {
    const uint64_t key = Mix(block_ ^ next_++);
    return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  }

 private:
  uint64_t block_;
  uint64_t next_ = 0;
};

}  // namespace

HWY_EXPORT(Train);

// The powers of the betas by repeated products: std::pow may differ between C libraries.
std::vector<UpdateRates> AdamRates(double learning_rate, size_t count) {
  std::vector<UpdateRates> rates;
  double power1 = 1;
  double power2 = 1;
  for (size_t t = 0; t < count; ++t) {
    power1 *= kBeta1;
    power2 *= kBeta2;
    rates.push_back(
        {static_cast<float>(learning_rate / (1 - power1)), static_cast<float>(1 / (1 - power2))});
  }
  return rates;
}

void TrainBlock(const BlockPlace& place, const InitialWeights& initial,
                std::span<const UpdateRates> rates, size_t warmup, std::span<uint16_t> served) {
  Streams streams(place);
  BlockRun run;
  run.initial = initial;
  for (StreamKey& key : run.weight) key = streams.Next();
  for (StreamKey& key : run.scale) key = streams.Next();
  for (StreamKey& key : run.direction) key = streams.Next();
  std::vector<StreamKey> noise(rates.size());
  for (StreamKey& key : noise) key = streams.Next();
  run.noise = noise.data();
  run.rates = rates.data();
  run.updates = rates.size();
  run.warmup = warmup;
  run.count = served.size() / (rates.size() - warmup + 1);
  run.served = served.data();
  HWY_DYNAMIC_DISPATCH(Train)(run);
}

}  // namespace isthmus::bench
#endif
