#include "isthmus/codec/element.h"

namespace isthmus::codec {

KeyRule KeyRuleOf(Elements elements, tensor::Dtype dtype) {
  using tensor::Dtype;
  if (elements == Elements::kCodes4) {
    return {0, static_cast<uint8_t>(dtype == Dtype::kF4 ? 0x07 : 0x0F)};
  }
  switch (dtype) {
    case Dtype::kBf16:
    case Dtype::kF32:
    case Dtype::kC64:
      return {1, 0xFF};
    case Dtype::kF16:
    case Dtype::kF8E4M3:
    case Dtype::kF8E5M2:
    case Dtype::kF8E4M3Fnuz:
    case Dtype::kF8E5M2Fnuz:
      return {0, 0x7F};
    default:
      return {0, 0xFF};
  }
}

}  // namespace isthmus::codec
