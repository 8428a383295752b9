// Class masks and ranks of one block on AVX-512 with VBMI and GFNI, up to eight classes at once.
// Included by block_masks-inl.h, once per SIMD target; empty for all but one.
#if defined(ISTHMUS_CODEC_BLOCK_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISTHMUS_CODEC_BLOCK_ROWS_INL_H_
#undef ISTHMUS_CODEC_BLOCK_ROWS_INL_H_
#else
#define ISTHMUS_CODEC_BLOCK_ROWS_INL_H_
#endif

#include <bit>
#include <cstring>

#include "isthmus/codec/block_keys-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::codec::HWY_NAMESPACE {

// Better targets have lower bits; all of x86 that are better than AVX3_DL include it.
#undef ISTHMUS_HAS_BLOCK_ROWS
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX3_DL
#define ISTHMUS_HAS_BLOCK_ROWS 1

// Lanes of a row: lane c belongs to class c.
inline constexpr size_t kRow = 8;

// Class masks of 64 elements at once, where few enough keys lie between the lowest and the highest
// threshold: a table turns keys into bits, GFNI transposes these. About twice as fast as
// comparing with each threshold.
class OneHotRows {
 public:
  static bool Fits(const ClassRule& rule) {
    return rule.class_count > 1 && rule.class_count <= kRow && HasGfni() &&
           rule.first_key[rule.class_count - 1] - rule.first_key[1] < kMaxKeys - 1;
  }

  explicit OneHotRows(const ClassRule& rule) {
    alignas(64) uint8_t bits[kMaxKeys];
    const uint32_t lowest = rule.first_key[1] - 1u;
    size_t c = 0;
    for (uint32_t i = 0; i < kMaxKeys; ++i) {
      while (c + 1 < rule.class_count && lowest + i >= rule.first_key[c + 1]) ++c;
      bits[i] = static_cast<uint8_t>(1u << c);
    }
    alignas(64) uint8_t gather[64];
    alignas(64) uint8_t reverse[64];
    for (size_t i = 0; i < 64; ++i) {
      gather[i] = static_cast<uint8_t>(i % 8 * 8 + i / 8);
      reverse[i] = static_cast<uint8_t>(i % 16 / 8 * 8 + 7 - i % 8);
    }
    is_wide_ = rule.first_key[rule.class_count - 1] - lowest >= 64;
    bits_ = _mm512_load_si512(bits);
    bits_above_ = _mm512_load_si512(bits + 64);
    last_ = _mm512_set1_epi8(is_wide_ ? 127 : 63);
    gather_ = _mm512_load_si512(gather);
    reverse_ = _mm512_load_si512(reverse);
    lowest_ = _mm512_set1_epi8(static_cast<char>(lowest));
  }

  HWY_INLINE __m512i Row(__m512i keys) const {
    const __m512i place = _mm512_min_epu8(_mm512_subs_epu8(keys, lowest_), last_);
    const __m512i bit = is_wide_ ? _mm512_permutex2var_epi8(bits_, place, bits_above_)
                                 : _mm512_permutexvar_epi8(place, bits_);
    // In each group of eight elements, the last first: the transposition turns them around.
    const __m512i one_hot = _mm512_shuffle_epi8(bit, reverse_);
    // Byte c of each group: the bits of class c. (Highway's targets do not name GFNI, so the
    // compiler does not accept the intrinsic here.)
    __m512i transposed;
    const __m512i unit = _mm512_set1_epi64(static_cast<int64_t>(0x8040'2010'0804'0201u));
    asm("vgf2p8affineqb $0, %2, %1, %0" : "=v"(transposed) : "v"(unit), "v"(one_hot));
    return _mm512_permutexvar_epi8(gather_, transposed);
  }

 private:
  static bool HasGfni() {
    static const bool has = __builtin_cpu_supports("gfni") != 0;
    return has;
  }

  static constexpr uint32_t kMaxKeys = 128;  // two vectors

  bool is_wide_;  // one vector does not do
  __m512i bits_, bits_above_, last_, gather_, reverse_, lowest_;
};

// As BlockMasks, faster: a row is a vector, a lane of it a class.
class BlockRows {
 public:
  static constexpr size_t kMostClasses = kRow;

  static bool Fits(const ClassRule& rule) { return OneHotRows::Fits(rule); }
  explicit BlockRows(const ClassRule& rule) : key_(rule.key), one_hot_(rule) {}

  template <typename T>
  void Build(const T* elements, size_t count, uint64_t active_words, const std::byte* next_block) {
    const OneHotRows one_hot = one_hot_;  // in registers
    const size_t whole = count / 64;
    for (size_t w = 0; w < whole; ++w) {
      hwy::Prefetch(next_block + w * 64);
      __m512i row = _mm512_setzero_si512();
      if (HWY_LIKELY((active_words >> w & 1) != 0)) {
        row = one_hot.Row(LoadKeys(elements + w * 64, key_).raw);
      }
      _mm512_store_si512(mask_[w], row);
    }
    if (HWY_UNLIKELY(whole < kBlockWords)) {
      std::memset(mask_ + whole, 0, (kBlockWords - whole) * sizeof mask_[0]);
      if ((active_words >> whole & 1) != 0) BuildRest(elements + whole * 64, count % 64, whole);
    }
    SumUp();
  }

  // Makes PlaceOf possible.
  void PreparePlaces() {
    for (size_t w = 0; w < kBlockWords; w += 8) Transpose(w);
  }

  HWY_INLINE uint32_t Count(size_t c) const { return Before(kBlockWords)[c]; }

  HWY_INLINE uint32_t PlaceOf(size_t c, uint32_t rank) const {
    const __m512i limit = _mm512_set1_epi16(static_cast<int16_t>(rank));
    const __mmask32 a = _mm512_cmple_epi16_mask(_mm512_load_si512(through_[c]), limit);
    const __mmask32 b = _mm512_cmple_epi16_mask(_mm512_load_si512(through_[c] + 32), limit);
    const auto word = static_cast<uint32_t>(std::popcount(a) + std::popcount(b));
    return word * 64 + SelectBit(mask_[word][c], rank - Before(word)[c]);
  }
  HWY_INLINE uint32_t RankOf(size_t c, uint32_t place) const {
    const uint32_t word = place / 64;
    const uint64_t below = mask_[word][c] & ((uint64_t{1} << (place % 64)) - 1);
    return static_cast<uint32_t>(Before(word)[c] + std::popcount(below));
  }

 private:
  template <typename T>
  void BuildRest(const T* elements, size_t count, size_t w) {
    T rest[64] = {};
    std::memcpy(rest, elements, count * sizeof(T));
    const auto valid = static_cast<int64_t>((uint64_t{1} << count) - 1);
    const __m512i row = one_hot_.Row(LoadKeys(rest, key_).raw);
    _mm512_store_si512(mask_[w], _mm512_and_si512(row, _mm512_set1_epi64(valid)));
  }

  void SumUp() {
    __m512i sum = _mm512_setzero_si512();
    _mm_storeu_si128(reinterpret_cast<__m128i*>(Before(0)), _mm_setzero_si128());
    for (size_t w = 0; w < kBlockWords; ++w) {
      sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(_mm512_load_si512(mask_[w])));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(Before(w + 1)), _mm512_cvtepi64_epi16(sum));
    }
  }

  HWY_INLINE void Transpose(size_t w) {
    alignas(64) static constexpr uint16_t kFirstFour[32] = {
        0, 8,  16, 24, 32, 40, 48, 56, 1, 9,  17, 25, 33, 41, 49, 57,
        2, 10, 18, 26, 34, 42, 50, 58, 3, 11, 19, 27, 35, 43, 51, 59};
    const __m512i low = _mm512_load_si512(kFirstFour);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(4));
    const __m512i a = _mm512_load_si512(Before(w + 1));
    const __m512i b = _mm512_load_si512(Before(w + 5));
    StoreFour(_mm512_permutex2var_epi16(a, low, b), 0, w);
    StoreFour(_mm512_permutex2var_epi16(a, high, b), 4, w);
  }
  HWY_INLINE void StoreFour(__m512i sums_of_four, size_t c, size_t w) {
    const auto at = [&](size_t i) { return reinterpret_cast<__m128i*>(through_[c + i] + w); };
    _mm_store_si128(at(0), _mm512_extracti32x4_epi32(sums_of_four, 0));
    _mm_store_si128(at(1), _mm512_extracti32x4_epi32(sums_of_four, 1));
    _mm_store_si128(at(2), _mm512_extracti32x4_epi32(sums_of_four, 2));
    _mm_store_si128(at(3), _mm512_extracti32x4_epi32(sums_of_four, 3));
  }

  // Elements in the rows before row w.
  uint16_t* Before(size_t w) { return sums_[kPad + w]; }
  const uint16_t* Before(size_t w) const { return sums_[kPad + w]; }

  const KeyRule key_;
  const OneHotRows one_hot_;
  alignas(64) uint64_t mask_[kBlockWords][kRow];
  // [c]: the sums up to the end of each row, of class c alone, so that one search finds a row.
  alignas(64) uint16_t through_[kRow][kBlockWords];
  // Before(0) is zero; Before(1), Before(5), … are aligned.
  static constexpr size_t kPad = 3;
  alignas(64) uint16_t sums_[kPad + 1 + kBlockWords][kRow];
};

#else
#define ISTHMUS_HAS_BLOCK_ROWS 0
#endif

}  // namespace isthmus::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
