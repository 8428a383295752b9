// Class masks and ranks of one block, for the kernels of sparse payloads.
// Included once per SIMD target, inside their namespace (see hwy/examples/skeleton-inl.h).
#if defined(ISTHMUS_CODEC_BLOCK_MASKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISTHMUS_CODEC_BLOCK_MASKS_INL_H_
#undef ISTHMUS_CODEC_BLOCK_MASKS_INL_H_
#else
#define ISTHMUS_CODEC_BLOCK_MASKS_INL_H_
#endif

#include <bit>
#include <cstring>

#include "isthmus/codec/block_keys-inl.h"
#include "isthmus/codec/block_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::codec::HWY_NAMESPACE {

// The elements of one block in rows of kRow classes: row w stands for elements 64 w to 64 w + 63,
// bit i of a mask in it for element 64 w + i.
template <size_t kRow>
class BlockMasks {
 public:
  static constexpr size_t kMostClasses = kRow;

  explicit BlockMasks(const ClassRule& rule) : rule_(rule) {
    for (size_t c = 1; c < kRow; ++c) {
      std::memset(below_[c], INT8_MAX, sizeof below_[c]);  // no key is above it
      if (c < rule.class_count) std::memcpy(below_[c], rule.below[c], sizeof below_[c]);
    }
  }

  // The elements may lie at any address. All masks of the block are made here, before any element
  // changes. `count` is 1 to kBlockElements; bit w of `active_words` says whether word w takes
  // part. The first 64 bytes for each word from `next_block` on are fetched meanwhile: hardware
  // does not fetch across pages, and stands still while changes are decoded.
  template <typename T>
  void Build(const T* elements, size_t count, uint64_t active_words, const std::byte* next_block) {
    const size_t whole = count / 64;
    for (size_t w = 0; w < whole; ++w) {
      hwy::Prefetch(next_block + w * 64);
      if (HWY_LIKELY((active_words >> w & 1) != 0)) {
        BuildWord(elements + w * 64, w, ~uint64_t{0});
      } else {
        ClearWords(w, w + 1);
      }
    }
    if (HWY_UNLIKELY(whole < kBlockWords)) {
      ClearWords(whole, kBlockWords);
      if ((active_words >> whole & 1) != 0) BuildRest(elements + whole * 64, count % 64, whole);
    }
    SumUp();
  }

  // Makes PlaceOf possible.
  void PreparePlaces() {
    for (size_t c = 0; c < kRow; ++c) {
      for (size_t g = 0; g < kGroups; ++g)
        groups_[c][g] = static_cast<int16_t>(before_[g * kGroupWords][c]);
    }
  }

  // How many elements class c has.
  HWY_INLINE uint32_t Count(size_t c) const { return before_[kBlockWords][c]; }

  // Place in the block of the element of class c with this rank in it.
  HWY_INLINE uint32_t PlaceOf(size_t c, uint32_t rank) const {
    const hn::FixedTag<int16_t, kGroups> d;
    const auto above = hn::Gt(hn::Load(d, groups_[c]), hn::Set(d, static_cast<int16_t>(rank)));
    auto word = static_cast<uint32_t>((kGroups - 1 - hn::CountTrue(d, above)) * kGroupWords);
    for (uint32_t step = kGroupWords / 2; step > 0; step /= 2) {
      word += before_[word + step][c] <= rank ? step : 0;
    }
    return word * 64 + SelectBit(mask_[word][c], rank - before_[word][c]);
  }
  // Rank in class c of an element of it.
  HWY_INLINE uint32_t RankOf(size_t c, uint32_t place) const {
    const uint32_t word = place / 64;
    const uint64_t below = mask_[word][c] & ((uint64_t{1} << (place % 64)) - 1);
    return static_cast<uint32_t>(before_[word][c] + std::popcount(below));
  }

 private:
  void ClearWords(size_t begin, size_t end) {
    std::memset(mask_ + begin, 0, (end - begin) * sizeof mask_[0]);
    std::memset(counts_ + begin, 0, (end - begin) * sizeof counts_[0]);
  }
  template <typename T>
  void BuildRest(const T* elements, size_t count, size_t w) {
    T rest[64] = {};
    std::memcpy(rest, elements, count * sizeof(T));
    BuildWord(rest, w, (uint64_t{1} << count) - 1);
  }

  // `valid`: the elements that take part.
  template <typename T>
  HWY_INLINE void BuildWord(const T* elements, size_t w, uint64_t valid) {
    uint64_t at_least[kRow];
    CompareWord(elements, at_least);
    for (size_t c = 1; c < kRow; ++c) {
      at_least[c] &= valid;
      Put(w, c - 1, valid & ~at_least[c]);
      valid = at_least[c];
    }
    Put(w, kRow - 1, valid);
  }
  HWY_INLINE void Put(size_t w, size_t c, uint64_t mask) {
    mask_[w][c] = mask;
    counts_[w][c] = static_cast<uint8_t>(std::popcount(mask));
  }

  // Bit i of at_least[c]: element i is of class c or above, c > 0.
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  // Emulated vectors are several times slower than a table.
  template <typename T>
  HWY_INLINE void CompareWord(const T* elements, uint64_t* at_least) const {
    uint64_t masks[kMaxClasses] = {};
    for (size_t i = 0; i < 64; ++i) {
      T bits;
      std::memcpy(&bits, elements + i, sizeof bits);
      masks[rule_.class_of_key[KeyOf<8 * sizeof(T)>(bits, rule_.key)]] |= uint64_t{1} << i;
    }
    uint64_t above = 0;
    for (size_t c = kRow; c-- > 1;) {
      above |= masks[c];
      at_least[c] = above;
    }
  }
#else
  template <typename T>
  HWY_INLINE void CompareWord(const T* elements, uint64_t* at_least) const {
    const hn::RebindToSigned<KeyTag> d;
    constexpr size_t kLanes = hn::MaxLanes(KeyTag());
    hn::Vec<decltype(d)> keys[64 / kLanes];
    for (size_t i = 0; i < 64 / kLanes; ++i) {
      const auto unsigned_keys = LoadKeys(elements + i * kLanes, rule_.key);
      keys[i] = hn::BitCast(d, hn::Xor(unsigned_keys, hn::Set(KeyTag(), 0x80)));
    }
    for (size_t c = 1; c < kRow; ++c) {
      const auto below = hn::Load(d, below_[c]);
      at_least[c] = 0;
      for (size_t i = 0; i < 64 / kLanes; ++i) {
        MaskBits<kLanes> bits = 0;
        hn::StoreMaskBits(d, hn::Gt(keys[i], below), reinterpret_cast<uint8_t*>(&bits));
        at_least[c] |= uint64_t{bits} << (i * kLanes);
      }
    }
  }
#endif

  void SumUp() {
    const hn::FixedTag<uint16_t, 8> d;
    const hn::Rebind<uint8_t, decltype(d)> d8;
    for (size_t c = 0; c < kRow; c += 8) {
      auto sum = hn::Zero(d);
      hn::Store(sum, d, before_[0] + c);
      for (size_t w = 0; w < kBlockWords; ++w) {
        sum = hn::Add(sum, hn::PromoteTo(d, hn::Load(d8, counts_[w] + c)));
        hn::Store(sum, d, before_[w + 1] + c);
      }
    }
  }

  static constexpr size_t kGroups = 8;  // of words
  static constexpr size_t kGroupWords = kBlockWords / kGroups;

  const ClassRule& rule_;
  alignas(64) int8_t below_[kRow][64];  // as the rule's
  alignas(64) uint64_t mask_[kBlockWords][kRow];
  alignas(64) uint8_t counts_[kBlockWords][kRow];
  alignas(64) uint16_t before_[kBlockWords + 1][kRow];  // elements in the rows before
  alignas(64) int16_t groups_[kRow][kGroups];           // the same for the first row of each group
};

// Calls use.template operator()<Masks>() with the fastest masks for the rule.
template <typename Use>
auto WithMasksFor(const ClassRule& rule, const Use& use) {
#if ISTHMUS_HAS_BLOCK_ROWS
  if (BlockRows::Fits(rule)) return use.template operator()<BlockRows>();
#endif
  if (rule.class_count <= 8) return use.template operator()<BlockMasks<8>>();
  return use.template operator()<BlockMasks<kMaxClasses>>();
}

}  // namespace isthmus::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
