// A model made ready for decoding.
#ifndef ISTHMUS_CODEC_DECODE_TABLES_H_
#define ISTHMUS_CODEC_DECODE_TABLES_H_

#include <array>
#include <cstdint>

#include "isthmus/codec/model.h"
#include "isthmus/codec/tans.h"

namespace isthmus::codec {

// A gap of this much or more: the class has no further change.
inline constexpr uint32_t kNoFurtherGap = uint32_t{1} << 30;

struct DecodeTables {
  explicit DecodeTables(const Model& model);

  std::array<TansDecodeTable, kMaxClasses> gaps;
  std::array<TansDecodeTable, kMaxStepTables> steps;
  std::array<uint32_t, kMaxClasses> skip_length;
  std::array<uint8_t, kMaxClasses> step_table;  // of each class
  // The first number of each bucket; for gaps END and SKIP count as such.
  std::array<uint32_t, kMaxSymbols> gap_start;
  std::array<uint32_t, kMaxSymbols> step_start;
};

// The tables of `model`: the calling thread's, until its next call. Chunks of one model mostly
// follow each other, so they are built once for many of them.
const DecodeTables& TablesFor(const Model& model);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_DECODE_TABLES_H_
