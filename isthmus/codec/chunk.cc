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
                MutableByteSpan chunk) {
  switch (encoding) {
    case Encoding::kRaw:
      return ApplyRaw(payload, tensor::UnitBytes(dtype), chunk);
    case Encoding::kXor:
      return ApplyXor(payload, tensor::UnitBytes(dtype), chunk);
    case Encoding::kDirect:
    case Encoding::kContext:
      return ApplySparse(payload, *model, dtype, chunk);
  }
  Throw(ErrorCode::kInternal, "apply chunk: encoding {}", static_cast<int>(encoding));
}

}  // namespace isthmus::codec
