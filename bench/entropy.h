// How few bits a change could take: its entropy, computed exactly from counts. What no coder beats
// that knows only these counts, and has them for free.
#ifndef BENCH_ENTROPY_H_
#define BENCH_ENTROPY_H_

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "isthmus/base/bytes.h"
#include "isthmus/codec/element.h"

namespace isthmus::bench {

// What an element of these tensors is. All integer tensors of the benchmark hold packed codes.
constexpr codec::Elements ElementsOf(tensor::Dtype dtype) {
  const bool codes = dtype == tensor::Dtype::kF4 || dtype == tensor::Dtype::kI32;
  return codes ? codec::Elements::kCodes4 : codec::Elements::kUnits;
}

// Counts of a pair's elements and their changes, dtype by dtype, all tensors of a dtype taken
// together. Keys and steps are those of docs/patch-format.md, 3.3: of BF16, the key is the exponent
// of the old value.
class ChangeCounts {
 public:
  // Counts a tensor; both spans have the same size.
  void Add(tensor::Dtype dtype, ByteSpan before, ByteSpan after);
  void Add(const ChangeCounts& other);

  uint64_t elements() const;
  uint64_t changed() const;

  // Bits of all changes together. A position costs what it takes to say which elements change if
  // all are equally likely to, a step what its frequency is worth.
  double BitsWithOneDensity() const;
  // The same, with a density and step frequencies for each key.
  double BitsGivenKey() const;

 private:
  struct KindCounts {
    std::array<uint64_t, 256> elements{};  // by key
    std::array<uint64_t, 256> changed{};
    std::array<std::unordered_map<codec::PackedStep, uint64_t>, 256> steps;

    template <uint32_t kBits>
    void Add(codec::KeyRule rule, typename codec::Element<kBits>::Bits before,
             typename codec::Element<kBits>::Bits after);
    void AddCodes(codec::KeyRule rule, ByteSpan before, ByteSpan after);
    void AddUnits(codec::KeyRule rule, size_t unit_bytes, ByteSpan before, ByteSpan after);
  };
  static double BitsOf(const KindCounts& kind);
  static double BitsByKey(const KindCounts& kind);

  std::map<tensor::Dtype, KindCounts> kinds_;
};

}  // namespace isthmus::bench

#endif  // BENCH_ENTROPY_H_
