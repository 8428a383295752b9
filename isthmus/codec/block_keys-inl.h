// Keys of elements as vectors, and small helpers of the kernels of sparse payloads.
// Included once per SIMD target, inside their namespace (see hwy/examples/skeleton-inl.h).
#if defined(ISTHMUS_CODEC_BLOCK_KEYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISTHMUS_CODEC_BLOCK_KEYS_INL_H_
#undef ISTHMUS_CODEC_BLOCK_KEYS_INL_H_
#else
#define ISTHMUS_CODEC_BLOCK_KEYS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <bit>
#include <type_traits>

#if HWY_ARCH_X86_64
#include <immintrin.h>
#endif

#include "isthmus/codec/sparse.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::codec::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// What a mask of so many lanes is stored in: of just its size, so that it never goes through
// memory.
template <size_t kLanes>
using MaskBits =
    std::conditional_t<kLanes <= 8, uint8_t,
                       std::conditional_t<kLanes <= 16, uint16_t,
                                          std::conditional_t<kLanes <= 32, uint32_t, uint64_t>>>;

using KeyTag = hn::CappedTag<uint8_t, 64>;

// Keys of Lanes(KeyTag()) elements of 1, 2 or 4 bytes at any address.
HWY_INLINE hn::Vec<KeyTag> LoadKeys(const uint8_t* elements, KeyRule rule) {
  const KeyTag d;
  return hn::And(hn::LoadU(d, elements), hn::Set(d, rule.mask));
}
HWY_INLINE hn::Vec<KeyTag> LoadKeys(const uint16_t* elements, KeyRule rule) {
  const KeyTag d;
  const hn::Repartition<uint16_t, KeyTag> d16;
  auto low = hn::LoadU(d16, elements);
  auto high = hn::LoadU(d16, elements + hn::Lanes(d16));
  if (rule.shift != 0) {
    low = hn::Add(low, low);
    high = hn::Add(high, high);
  }
  const auto keys = hn::ConcatOdd(d, hn::BitCast(d, high), hn::BitCast(d, low));
  return hn::And(keys, hn::Set(d, rule.mask));
}
HWY_INLINE hn::Vec<KeyTag> LoadKeys(const uint32_t* elements, KeyRule rule) {
  const KeyTag d;
  const hn::Repartition<uint16_t, KeyTag> d16;
  const hn::Repartition<uint32_t, KeyTag> d32;
  const size_t lanes = hn::Lanes(d32);
  const auto load = [&](size_t i) {
    const auto v = hn::LoadU(d32, elements + i * lanes);
    return hn::BitCast(d16, rule.shift != 0 ? hn::Add(v, v) : v);
  };
  const auto low = hn::ConcatOdd(d16, load(1), load(0));
  const auto high = hn::ConcatOdd(d16, load(3), load(2));
  const auto keys = hn::ConcatOdd(d, hn::BitCast(d, high), hn::BitCast(d, low));
  return hn::And(keys, hn::Set(d, rule.mask));
}

// Place of the set bit of `mask` with `rank` set bits below it.
HWY_INLINE uint32_t SelectBit(uint64_t mask, uint32_t rank) {
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2
  return static_cast<uint32_t>(std::countr_zero(_pdep_u64(uint64_t{1} << rank, mask)));
#else
  for (; rank > 0; --rank) mask &= mask - 1;
  return static_cast<uint32_t>(std::countr_zero(mask));
#endif
}

// Fetches a share of the block at `next_block`: part `part` of `parts` of what Build (of the block
// masks) has not fetched of it.
template <typename T>
HWY_INLINE void PrefetchRest(const std::byte* next_block, size_t part, size_t parts) {
  constexpr size_t kFetched = kBlockWords * 64;
  constexpr size_t kRest = kBlockElements * sizeof(T) - (sizeof(T) > 1 ? kFetched : kBlockElements);
  const size_t share = kRest / parts;
  for (size_t at = 0; at < share; at += 64)
    hwy::Prefetch(next_block + kFetched + part * share + at);
}

}  // namespace isthmus::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
