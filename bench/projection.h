// From BF16 weights to the bytes of quantised formats, each by the rule of one tool that trainers
// use. For benchmark data: not a part of the product, which never quantises.
#ifndef BENCH_PROJECTION_H_
#define BENCH_PROJECTION_H_

#include <cstdint>
#include <span>

#include "isthmus/base/bytes.h"

namespace isthmus::bench {

// A row-major matrix of finite BF16 numbers.
struct Bf16Matrix {
  std::span<const uint16_t> values;
  uint64_t columns = 0;

  uint64_t rows() const { return values.size() / columns; }
};

struct Projected {
  ByteVector codes;
  ByteVector scales;
};

// F8_E4M3 in blocks of 128 x 128 (rows and columns must be multiples of it), scale = largest
// magnitude / 448 as F32, code = value / scale to nearest even: slime's convert_hf_to_fp8.
inline constexpr uint64_t kFp8Block = 128;
Projected ProjectFp8(const Bf16Matrix& matrix);

// Signed 4-bit integers plus 8, eight in an I32, the first one lowest, in groups of 32 of a row,
// scale = largest magnitude / 7.5 as BF16, code = value / scale to nearest even, in -8 to 7:
// compressed-tensors' pack-quantized.
// F4 (E2M1), two in a byte, the first one low, in groups of 32, scale = 2^(exponent of the largest
// magnitude - 2) as F8_E8M0, code to nearest even, at most 6: OCP's MXFP4.
// Columns must be a multiple of a group.
inline constexpr uint64_t kGroup = 32;
Projected ProjectInt4(const Bf16Matrix& matrix);
Projected ProjectFp4(const Bf16Matrix& matrix);

// The rounding in them. Finite numbers only; what is too large becomes the largest code.
uint8_t ToE4M3(float value);
uint8_t ToE2M1(float value);

}  // namespace isthmus::bench

#endif  // BENCH_PROJECTION_H_
