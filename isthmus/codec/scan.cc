// One generic kernel, compiled for every SIMD target (see hwy/examples/skeleton.cc).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isthmus/codec/scan.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <bit>
#include <cstring>

#include "isthmus/codec/block_keys-inl.h"
#include "isthmus/codec/scan.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::codec::HWY_NAMESPACE {

// Bit i is set if unit i of 64 differs.
template <typename T>
HWY_INLINE uint64_t ChangedOf64(const T* before, const T* after) {
  const hn::CappedTag<T, 64> d;
  uint64_t changed = 0;
  for (size_t i = 0; i < 64; i += hn::Lanes(d)) {
    MaskBits<hn::MaxLanes(d)> bits = 0;
    hn::StoreMaskBits(d, hn::Ne(hn::LoadU(d, before + i), hn::LoadU(d, after + i)),
                      reinterpret_cast<uint8_t*>(&bits));
    changed |= uint64_t{bits} << i;
  }
  return changed;
}

// Appends index + the place of each set bit; writes up to 64 entries. Returns their end. How many
// bits are set, at densities of a percent none to three, is random: no branch asks.
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX3_DL  // better targets have lower bits
HWY_INLINE uint32_t* AppendPlaces(uint64_t bits, uint32_t index, uint32_t* out) {
  const hn::CappedTag<uint8_t, 64> d8;
  const hn::CappedTag<uint32_t, 16> d32;
  const __m512i places = _mm512_maskz_compress_epi8(bits, hn::Iota(d8, 0).raw);
  const auto put = [&](size_t at, __m128i sixteen) {
    const auto widened = hn::PromoteTo(d32, hn::Vec<hn::Rebind<uint8_t, decltype(d32)>>{sixteen});
    hn::StoreU(hn::Add(widened, hn::Set(d32, index)), d32, out + at);
  };
  const auto count = static_cast<size_t>(std::popcount(bits));
  put(0, _mm512_castsi512_si128(places));
  if (HWY_UNLIKELY(count > 16)) {
    put(16, _mm512_extracti32x4_epi32(places, 1));
    put(32, _mm512_extracti32x4_epi32(places, 2));
    put(48, _mm512_extracti32x4_epi32(places, 3));
  }
  return out + count;
}
#else
HWY_INLINE uint32_t* AppendPlaces(uint64_t bits, uint32_t index, uint32_t* out) {
  constexpr size_t kAlways = 3;
  uint32_t* const end = out + std::popcount(bits);
  for (size_t i = 0; i < kAlways; ++i) {
    out[i] = index + static_cast<uint32_t>(std::countr_zero(bits));
    bits &= bits - 1;
  }
  for (out += kAlways; HWY_UNLIKELY(out < end); ++out) {
    *out = index + static_cast<uint32_t>(std::countr_zero(bits));
    bits &= bits - 1;
  }
  return end;
}
#endif

template <typename T>
size_t ScanUnits(const T* before, const T* after, size_t count, uint32_t first_index,
                 uint32_t* positions) {
  constexpr size_t kWords = 4;  // fewer: more branches on equal data; more: seldom all equal
  uint32_t* out = positions;
  size_t i = 0;
  for (; i + kWords * 64 <= count; i += kWords * 64) {
    uint64_t changed[kWords];
    uint64_t any = 0;
    for (size_t w = 0; w < kWords; ++w) {
      any |= changed[w] = ChangedOf64(before + i + w * 64, after + i + w * 64);
    }
    if (any == 0) continue;
    for (size_t w = 0; w < kWords; ++w) {
      out = AppendPlaces(changed[w], first_index + static_cast<uint32_t>(i + w * 64), out);
    }
  }
  for (; i < count; ++i) {
    *out = first_index + static_cast<uint32_t>(i);
    // Tensors may begin at any byte of a file.
    out += std::memcmp(before + i, after + i, sizeof(T)) != 0 ? 1 : 0;
  }
  return static_cast<size_t>(out - positions);
}

size_t Scan(ByteSpan before, ByteSpan after, size_t unit_bytes, uint32_t first_index,
            uint32_t* positions) {
  const auto scan = [&]<typename T>(T /*tag*/) {
    return ScanUnits(reinterpret_cast<const T*>(before.data()),
                     reinterpret_cast<const T*>(after.data()), before.size() / sizeof(T),
                     first_index, positions);
  };
  if (unit_bytes == 1) return scan(uint8_t{});
  if (unit_bytes == 2) return scan(uint16_t{});
  return scan(uint32_t{});
}

}  // namespace isthmus::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::codec {

HWY_EXPORT(Scan);

size_t ScanChanged(ByteSpan before, ByteSpan after, size_t unit_bytes, uint32_t first_index,
                   uint32_t* positions) {
  return HWY_DYNAMIC_DISPATCH(Scan)(before, after, unit_bytes, first_index, positions);
}

}  // namespace isthmus::codec
#endif
