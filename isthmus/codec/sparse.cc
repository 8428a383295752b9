#include "isthmus/codec/sparse.h"

#include <algorithm>

namespace isthmus::codec {

ClassRule::ClassRule(const std::vector<uint8_t>& model_thresholds, KeyRule key_rule)
    : key(key_rule),
      class_count(model_thresholds.size() + 1),
      first_key{},
      class_of_key{},
      below{} {
  for (size_t c = 1; c < class_count; ++c) {
    first_key[c] = model_thresholds[c - 1];
    std::fill_n(below[c], sizeof below[c], static_cast<int8_t>(first_key[c] - 1 - 128));
  }
  size_t c = 0;
  for (size_t k = 0; k < class_of_key.size(); ++k) {
    while (c + 1 < class_count && k >= first_key[c + 1]) ++c;
    class_of_key[k] = static_cast<uint8_t>(c);
  }
}

void UnpackCodes(ByteSpan packed, MutableByteSpan codes) {
  for (size_t i = 0; i < packed.size(); ++i) {
    codes[2 * i] = packed[i] & std::byte{0x0F};
    codes[2 * i + 1] = packed[i] >> 4;
  }
}

void PackCodes(ByteSpan codes, MutableByteSpan packed) {
  for (size_t i = 0; i < packed.size(); ++i) packed[i] = codes[2 * i] | codes[2 * i + 1] << 4;
}

}  // namespace isthmus::codec
