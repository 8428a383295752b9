#include "isthmus/codec/chunk.h"

#include <array>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/codec/dense.h"
#include "isthmus/codec/direct.h"

namespace isthmus::codec {
namespace {

constexpr std::array<std::pair<Encoding, std::string_view>, 3> kNames = {{
    {Encoding::kRaw, "raw"},
    {Encoding::kXor, "xor"},
    {Encoding::kDirect, "direct"},
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

void ApplyChunk(Encoding encoding, size_t unit_bytes, ByteSpan payload, MutableByteSpan chunk) {
  switch (encoding) {
    case Encoding::kRaw:
      return ApplyRaw(payload, unit_bytes, chunk);
    case Encoding::kXor:
      return ApplyXor(payload, unit_bytes, chunk);
    case Encoding::kDirect:
      return ApplyDirect(payload, unit_bytes, chunk);
  }
  Throw(ErrorCode::kInternal, "apply chunk: encoding {}", static_cast<int>(encoding));
}

}  // namespace isthmus::codec
