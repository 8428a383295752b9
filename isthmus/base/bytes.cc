#include "isthmus/base/bytes.h"

#include "isthmus/base/error.h"

namespace isthmus {

ByteSpan ByteReader::Take(uint64_t count) {
  if (count > remaining()) {
    Throw(ErrorCode::kCorrupt, "read {} bytes at offset {}: only {} are left", count, position_,
          remaining());
  }
  ByteSpan taken = bytes_.subspan(position_, static_cast<size_t>(count));
  position_ += taken.size();
  return taken;
}

uint64_t ByteReader::Varint() {
  const size_t start = position_;
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = U8();
    const uint64_t bits = byte & 0x7Fu;
    if (shift == 63 && bits > 1) break;
    value |= bits << shift;
    if (byte >= 0x80) continue;
    if (byte == 0 && shift != 0) {
      Throw(ErrorCode::kCorrupt, "read integer at offset {}: not in its shortest form", start);
    }
    return value;
  }
  Throw(ErrorCode::kCorrupt, "read integer at offset {}: larger than 64 bits", start);
}

std::string_view ByteReader::String(uint64_t max_bytes) {
  const size_t start = position_;
  const uint64_t length = Varint();
  if (length > max_bytes) {
    Throw(ErrorCode::kCorrupt, "read string at offset {}: {} bytes, at most {} allowed", start,
          length, max_bytes);
  }
  return AsText(Take(length));
}

void ByteReader::ExpectEnd() const {
  if (remaining() != 0) {
    Throw(ErrorCode::kCorrupt, "{} unexpected bytes after offset {}", remaining(), position_);
  }
}

void ByteWriter::Varint(uint64_t value) {
  while (value >= 0x80) {
    U8(static_cast<uint8_t>(value | 0x80));
    value >>= 7;
  }
  U8(static_cast<uint8_t>(value));
}

}  // namespace isthmus
