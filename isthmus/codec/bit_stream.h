// Bits from the lowest of each byte upward (docs/patch-format.md, 3.3).
#ifndef ISTHMUS_CODEC_BIT_STREAM_H_
#define ISTHMUS_CODEC_BIT_STREAM_H_

#include <cstdint>
#include <cstring>

#include "isthmus/base/bytes.h"

namespace isthmus::codec {

// Appends to a byte vector that the caller owns.
class BitWriter {
 public:
  explicit BitWriter(ByteVector* out) : out_(out) {}

  // bit_count <= 32; value has no bits above bit_count.
  void Put(uint32_t value, uint32_t bit_count) {
    pending_ |= uint64_t{value} << pending_bits_;
    pending_bits_ += bit_count;
    if (pending_bits_ < 32) return;
    const size_t at = out_->size();
    out_->resize(at + 4);
    StoreLe(out_->data() + at, static_cast<uint32_t>(pending_));
    pending_ >>= 32;
    pending_bits_ -= 32;
  }

  // Writes what is pending, padded with zero bits to a whole byte.
  void Finish() {
    for (; pending_bits_ > 0; pending_bits_ -= pending_bits_ < 8 ? pending_bits_ : 8) {
      out_->push_back(static_cast<std::byte>(pending_ & 0xFF));
      pending_ >>= 8;
    }
  }

 private:
  ByteVector* out_;
  uint64_t pending_ = 0;
  uint32_t pending_bits_ = 0;
};

// Reads bits that the caller has checked to be there in sum: past the end, zeros are read.
class BitReader {
 public:
  explicit BitReader(ByteSpan bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // bit_count <= 32.
  uint32_t Take(uint32_t bit_count) {
    if (held_bits_ < bit_count) Refill();
    const auto value = static_cast<uint32_t>(held_ & ((uint64_t{1} << bit_count) - 1));
    held_ >>= bit_count;
    held_bits_ -= bit_count;
    return value;
  }

 private:
  // Leaves at least 32 bits (zeros after the end).
  void Refill() {
    if (end_ - at_ >= 4) {
      held_ |= uint64_t{LoadLe<uint32_t>(at_)} << held_bits_;
      at_ += 4;
      held_bits_ += 32;
      return;
    }
    while (held_bits_ <= 56 - 8) {
      if (at_ != end_) held_ |= std::to_integer<uint64_t>(*at_++) << held_bits_;
      held_bits_ += 8;
    }
  }

  const std::byte* at_;
  const std::byte* end_;
  uint64_t held_ = 0;
  uint32_t held_bits_ = 0;
};

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_BIT_STREAM_H_
