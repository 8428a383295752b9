// Element types of safetensors files.
#ifndef ISTHMUS_TENSOR_DTYPE_H_
#define ISTHMUS_TENSOR_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace isthmus::tensor {

// The dtypes of safetensors 0.6 (huggingface/safetensors, safetensors/src/tensor.rs, enum Dtype).
// The values are stored in patches: explicit, never reused.
enum class Dtype : uint8_t {
  kBool = 1,
  kF4 = 2,
  kF6E2M3 = 3,
  kF6E3M2 = 4,
  kU8 = 5,
  kI8 = 6,
  kF8E5M2 = 7,
  kF8E4M3 = 8,
  kF8E8M0 = 9,
  kF8E4M3Fnuz = 10,
  kF8E5M2Fnuz = 11,
  kI16 = 12,
  kU16 = 13,
  kF16 = 14,
  kBf16 = 15,
  kI32 = 16,
  kU32 = 17,
  kF32 = 18,
  kC64 = 19,
  kF64 = 20,
  kI64 = 21,
  kU64 = 22,
};

// The name in a safetensors header, for example "F8_E4M3".
std::string_view DtypeName(Dtype dtype);
std::optional<Dtype> ParseDtype(std::string_view name);
// The dtype with this stored value, if there is one.
std::optional<Dtype> DtypeFromId(uint8_t id);
std::span<const Dtype> AllDtypes();

// Bits of one element: 4, 6, 8, 16, 32 or 64.
size_t BitsOf(Dtype dtype);
// Bytes of the unit that patches count and code: 1, 2 or 4. Sub-byte elements are coded as packed
// bytes, 8-byte elements as two 4-byte units (low half first).
size_t UnitBytes(Dtype dtype);

}  // namespace isthmus::tensor

#endif  // ISTHMUS_TENSOR_DTYPE_H_
