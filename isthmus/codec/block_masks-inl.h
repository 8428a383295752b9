// Class masks and ranks of one block, for the kernels of sparse payloads.
// Included once per SIMD target, inside their namespace (see hwy/examples/skeleton-inl.h).
#if defined(ISTHMUS_CODEC_BLOCK_MASKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISTHMUS_CODEC_BLOCK_MASKS_INL_H_
#undef ISTHMUS_CODEC_BLOCK_MASKS_INL_H_
#else
#define ISTHMUS_CODEC_BLOCK_MASKS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "isthmus/codec/block_keys-inl.h"
#include "isthmus/codec/block_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::codec::HWY_NAMESPACE {

// The elements of one block, by class. Bit i of word w stands for element 64 w + i.
class BlockMasks {
 public:
  explicit BlockMasks(const ClassRule& rule) : rule_(rule), class_count_(rule.class_count) {}

  // The elements may lie at any address. All masks of the block are made here, before any element
  // changes. `count` is 1 to kBlockElements; bit w of `active_words` says whether word w takes
  // part. The first 64 bytes for each word from `next_block` on are fetched meanwhile: hardware
  // does not fetch across pages, and stands still while changes are decoded.
  template <typename T>
  void Build(const T* elements, size_t count, uint64_t active_words, const std::byte* next_block) {
    const size_t whole = count / 64;
    for (size_t w = 0; w < whole; ++w) {
      hwy::Prefetch(next_block + w * 64);
      const bool active = (active_words >> w & 1) != 0;
      if (active) CompareWord(elements + w * 64, w);
      at_least_[0][w] = active ? ~uint64_t{0} : 0;
    }
    if (whole == kBlockWords) return;
    std::fill(at_least_[0] + whole, at_least_[0] + kBlockWords, uint64_t{0});
    if (count % 64 == 0 || (active_words >> whole & 1) == 0) return;
    T rest[64] = {};
    std::memcpy(rest, elements + whole * 64, (count % 64) * sizeof(T));
    CompareWord(rest, whole);
    at_least_[0][whole] = (uint64_t{1} << (count % 64)) - 1;
  }

  // Selects a class for the calls below; returns how many elements it has.
  uint32_t Select(size_t c) {
    const hn::CappedTag<uint64_t, kBlockWords> d64;
    const hn::Rebind<uint16_t, decltype(d64)> d16;
    auto sum = hn::Zero(d64);
    for (size_t w = 0; w < kBlockWords; w += hn::Lanes(d64)) {
      auto mask = hn::And(hn::Load(d64, at_least_[c] + w), hn::Load(d64, at_least_[0] + w));
      if (c + 1 < class_count_) mask = hn::AndNot(hn::Load(d64, at_least_[c + 1] + w), mask);
      const auto counts = hn::PopulationCount(mask);
      hn::Store(mask, d64, mask_ + w);
      hn::Store(hn::TruncateTo(d16, counts), d16, count_ + w);
      sum = hn::Add(sum, counts);
    }
    return static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(d64, sum)));
  }

  // Prepares the selected class for PlaceOf and RankOf.
  void Index() {
    const hn::CappedTag<uint16_t, kBlockWords> d;
    for (size_t w = 0; w < kBlockWords; w += hn::Lanes(d)) {  // in groups of eight words
      const auto counts = hn::Load(d, count_ + w);
      auto sums = hn::Add(counts, hn::ShiftLeftLanes<1>(d, counts));
      sums = hn::Add(sums, hn::ShiftLeftLanes<2>(d, sums));
      sums = hn::Add(sums, hn::ShiftLeftLanes<4>(d, sums));
      hn::Store(sums, d, through_ + w);
      hn::Store(hn::Sub(sums, counts), d, before_ + w);
    }
    uint16_t sum = 0;
    for (size_t g = 0; g < 8; ++g) {
      group_before_[g] = sum;
      sum = static_cast<uint16_t>(sum + through_[g * 8 + 7]);
      group_through_[g] = sum;
    }
  }

  // Place in the block of the element with this rank in the selected class, which is c.
  HWY_INLINE uint32_t PlaceOf(size_t /*c*/, uint32_t rank) const {
    const uint32_t group = CountAtMost(group_through_, rank);
    rank -= group_before_[group];
    const uint32_t word = group * 8 + CountAtMost(through_ + size_t{group} * 8, rank);
    return word * 64 + SelectBit(mask_[word], rank - before_[word]);
  }
  // Rank in the selected class, which is c, of an element of it.
  HWY_INLINE uint32_t RankOf(size_t /*c*/, uint32_t place) const {
    const uint32_t word = place / 64;
    const uint64_t below = mask_[word] & ((uint64_t{1} << (place % 64)) - 1);
    return static_cast<uint32_t>(group_before_[word / 8] + before_[word] + std::popcount(below));
  }

 private:
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  // Emulated vectors are several times slower than a table.
  template <typename T>
  HWY_INLINE void CompareWord(const T* elements, size_t w) {
    uint64_t masks[kMaxClasses] = {};
    for (size_t i = 0; i < 64; ++i) {
      T bits;
      std::memcpy(&bits, elements + i, sizeof bits);
      masks[rule_.class_of_key[KeyOf<8 * sizeof(T)>(bits, rule_.key)]] |= uint64_t{1} << i;
    }
    uint64_t at_least = 0;
    for (size_t c = class_count_; c-- > 1;) {
      at_least |= masks[c];
      at_least_[c][w] = at_least;
    }
  }
#else
  template <typename T>
  HWY_INLINE void CompareWord(const T* elements, size_t w) {
    const hn::RebindToSigned<KeyTag> d;
    const size_t lanes = hn::Lanes(d);
    const size_t class_count = class_count_;
    for (size_t i = 0; i < 64; i += lanes) {
      const auto keys = hn::Xor(LoadKeys(elements + i, rule_.key), hn::Set(KeyTag(), 0x80));
      for (size_t c = 1; c < class_count; ++c) {
        const auto at_least = hn::Gt(hn::BitCast(d, keys), hn::Load(d, rule_.below[c]));
        hn::StoreMaskBits(d, at_least, reinterpret_cast<uint8_t*>(&at_least_[c][w]) + i / 8);
      }
    }
  }
#endif

  // How many of eight ascending numbers are at most `value`.
  static HWY_INLINE uint32_t CountAtMost(const uint16_t* sorted, uint32_t value) {
    const hn::FixedTag<int16_t, 8> d;
    const auto numbers = hn::Load(d, reinterpret_cast<const int16_t*>(sorted));
    const auto above = hn::Gt(numbers, hn::Set(d, static_cast<int16_t>(value)));
    return static_cast<uint32_t>(8 - hn::CountTrue(d, above));
  }

  const ClassRule& rule_;
  const size_t class_count_;
  // [c]: the elements of at least class c. [0]: those that take part.
  alignas(64) uint64_t at_least_[kMaxClasses][kBlockWords] = {};
  alignas(64) uint64_t mask_[kBlockWords];
  alignas(64) uint16_t count_[kBlockWords];
  alignas(64) uint16_t through_[kBlockWords];  // elements in the group of 8 words, with this word
  alignas(64) uint16_t before_[kBlockWords];   // and without
  alignas(64) uint16_t group_before_[8];
  alignas(64) uint16_t group_through_[8];
};

// Calls use.template operator()<Masks>() with the fastest masks for the rule.
template <typename Use>
auto WithMasksFor(const ClassRule& rule, const Use& use) {
#if ISTHMUS_HAS_BLOCK_ROWS
  if (BlockRows::Fits(rule)) return use.template operator()<BlockRows>();
#endif
  static_cast<void>(rule);
  return use.template operator()<BlockMasks>();
}

}  // namespace isthmus::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
