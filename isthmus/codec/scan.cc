// One generic kernel, compiled for every SIMD target (see hwy/examples/skeleton.cc).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isthmus/codec/scan.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <bit>
#include <cstring>

#include "isthmus/codec/scan.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::codec::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Appends index + the place of each set bit. Two are written whatever there is, for whether a word
// has none, one or two is random, and a branch on it would be mispredicted.
HWY_INLINE uint32_t* AppendSetBits(uint64_t bits, uint32_t index, uint32_t* out) {
  uint32_t* const end = out + std::popcount(bits);
  for (size_t i = 0; i < kScanSlack; ++i) {
    out[i] = index + static_cast<uint32_t>(std::countr_zero(bits));
    bits &= bits - 1;
  }
  for (out += kScanSlack; HWY_UNLIKELY(out < end); ++out) {
    *out = index + static_cast<uint32_t>(std::countr_zero(bits));
    bits &= bits - 1;
  }
  return end;
}

// Bit i is set if lane i differs. D has at most 64 lanes.
template <class D, typename T>
HWY_INLINE uint64_t ChangedLanes(D d, const T* before, const T* after) {
  const auto changed = hn::Ne(hn::LoadU(d, before), hn::LoadU(d, after));
  uint64_t bits = 0;
  hn::StoreMaskBits(d, changed, reinterpret_cast<uint8_t*>(&bits));
  return bits;
}

// True if any of four vectors differs: one branch for 64 to 256 bytes.
template <class D, typename T>
HWY_INLINE bool AnyOfFourChanged(D d, const T* before, const T* after, size_t lanes) {
  auto any = hn::Xor(hn::LoadU(d, before), hn::LoadU(d, after));
  for (size_t v = 1; v < 4; ++v) {
    any = hn::Or(any, hn::Xor(hn::LoadU(d, before + v * lanes), hn::LoadU(d, after + v * lanes)));
  }
  return !hn::AllTrue(d, hn::Eq(any, hn::Zero(d)));
}

template <typename T>
size_t ScanUnits(const T* before, const T* after, size_t count, uint32_t first_index,
                 uint32_t* positions) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  uint32_t* out = positions;
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    if (HWY_LIKELY(!AnyOfFourChanged(d, before + i, after + i, lanes))) continue;
    for (size_t at = i; at < i + 4 * lanes; at += lanes) {
      out = AppendSetBits(ChangedLanes(d, before + at, after + at),
                          first_index + static_cast<uint32_t>(at), out);
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
