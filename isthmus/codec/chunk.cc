#include "isthmus/codec/chunk.h"

#include <array>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/codec/dense.h"
#include "isthmus/codec/sparse.h"

namespace isthmus::codec {
namespace {

constexpr std::array<std::pair<Encoding, std::string_view>, 4> kNames = {{
    {Encoding::kRaw, "raw"},
    {Encoding::kXor, "xor"},
    {Encoding::kDirect, "direct"},
    {Encoding::kContext, "context"},
}};

void ApplyDense(Encoding encoding, size_t unit_bytes, ByteSpan payload, MutableByteSpan chunk) {
  if (encoding == Encoding::kRaw) return ApplyRaw(payload, unit_bytes, chunk);
  ApplyXor(payload, unit_bytes, chunk);
}

}  // namespace

std::string_view EncodingName(Encoding encoding) {
  for (const auto& [value, name] : kNames) {
    if (value == encoding) return name;
  }
  return "unknown";
}

std::optional<Encoding> ParseEncoding(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

void ApplyChunk(Encoding encoding, const Model* model, tensor::Dtype dtype, ByteSpan payload,
                MutableByteSpan chunk, OldUnits* old) {
  if (IsSparse(encoding)) return ApplySparse(payload, *model, dtype, chunk, old);
  const size_t unit_bytes = tensor::UnitBytes(dtype);
  const auto apply = [&] { ApplyDense(encoding, unit_bytes, payload, chunk); };
  if (old == nullptr) return apply();
  old->Watch(chunk, unit_bytes, apply);
}

}  // namespace isthmus::codec
