// The safetensors file format: u64 header length, JSON header, tensor data.
// https://github.com/huggingface/safetensors#format; limits from safetensors/src/tensor.rs.
#ifndef ISTHMUS_TENSOR_SAFETENSORS_H_
#define ISTHMUS_TENSOR_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/bytes.h"
#include "isthmus/tensor/dtype.h"

namespace isthmus::tensor {

// As the reference implementation: MAX_HEADER_SIZE.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
// Patches store names with this limit (docs/patch-format.md).
inline constexpr uint64_t kMaxNameBytes = 4096;
inline constexpr size_t kMaxRank = 32;

using Shape = std::vector<uint64_t>;

// Whether a tensor may have this name: 1 to kMaxNameBytes bytes of UTF-8 without control
// characters, and not "__metadata__".
bool IsTensorName(std::string_view name);

struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::kU8;
  Shape shape;
  // Where the data lies in the file, from the file's first byte. end == begin for a tensor with a
  // zero dimension.
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  // Bytes before the data: 8 and the JSON with its padding.
  uint64_t header_bytes = 0;
  // By rising begin, then end, then name: file order. The data of all tensors covers the rest of
  // the file without hole or overlap.
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Product of shape × bits of dtype in bytes. kCorrupt if it overflows 64 bits or does not fill
// whole bytes (sub-byte dtypes). `name` is for the message only.
uint64_t BytesOf(std::string_view name, Dtype dtype, const Shape& shape);

// Reads the header of a file given all its bytes (mapped; only the header is touched) and checks
// everything: header length within the file and kMaxHeaderBytes; JSON valid UTF-8, an object that
// begins with '{', padded with spaces only; names unique, 1 to kMaxNameBytes, without control
// characters; only the known keys dtype, shape, data_offsets; known dtype; rank <= kMaxRank;
// offsets in range, not decreasing, equal to the size that dtype and shape give; no hole, no
// overlap, no byte after the last tensor; "__metadata__" a map of strings to strings.
// Throws kCorrupt; the message names what was found and what was allowed, not the file.
SafetensorsHeader ParseSafetensors(ByteSpan file);

// The same, given only the first bytes of a file of `file_bytes`: at least the whole header.
SafetensorsHeader ParseSafetensorsHeader(ByteSpan start, uint64_t file_bytes);

// The first bytes of a file (length and JSON, padded with spaces so that the data begins at a
// multiple of 8) for tensors in the given order; begin/end of the input are ignored and the data is
// laid out in this order without holes. Throws kInvalid for what ParseSafetensors would refuse.
ByteVector MakeSafetensorsHeader(const std::vector<TensorInfo>& tensors,
                                 const std::map<std::string, std::string>& metadata = {});

}  // namespace isthmus::tensor

#endif  // ISTHMUS_TENSOR_SAFETENSORS_H_
