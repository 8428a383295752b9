// Bits from the lowest of each byte upward (docs/patch-format.md, 3.3).
#ifndef ISTHMUS_CODEC_BIT_STREAM_H_
#define ISTHMUS_CODEC_BIT_STREAM_H_

#include <cstdint>

#include "isthmus/base/bytes.h"

namespace isthmus::codec {

// Readers load eight bytes at once: so many zero bytes must lie behind a stream.
inline constexpr size_t kStreamPadding = 32;

// Writes a stream from its end to its start, as an encoder that runs from the last symbol to the
// first needs it. The buffer is the caller's and must be large enough, with kPrependSlack bytes
// more at its front; the stream ends at its end.
inline constexpr size_t kPrependSlack = 8;
inline constexpr uint32_t kMaxPutBits = 56;
class PrependBits {
 public:
  explicit PrependBits(MutableByteSpan buffer) : at_(buffer.data() + buffer.size()) {}

  // bit_count <= kMaxPutBits; value has no bits above bit_count. Without branches: where bytes fill
  // up is random.
  void Put(uint64_t value, uint32_t bit_count) {
    held_ = held_ << bit_count | value;
    held_bits_ += bit_count;
    // The upper bits are the older ones: they go next to what is written already.
    StoreLe(at_ - 8, held_ << 1 << (63 - held_bits_));
    at_ -= held_bits_ / 8;
    held_bits_ %= 8;
    held_ &= (uint64_t{1} << held_bits_) - 1;
  }

  struct Front {
    std::byte* begin;
    uint32_t pad;  // zero bits before the first one that was put
  };
  Front Finish() {
    const uint32_t pad = (8 - held_bits_) % 8;
    Put(0, pad);
    return {at_, pad};
  }

 private:
  std::byte* at_;
  uint64_t held_ = 0;
  uint32_t held_bits_ = 0;  // at most 7 between calls
};

// A position in a stream with kStreamPadding zero bytes behind it. Reads may run past the end by
// less than that; whoever reads checks Past() often enough.
struct BitCursor {
  const std::byte* stream = nullptr;
  uint64_t bit = 0;
  uint64_t end = 0;  // bits

  bool Past() const { return bit > end; }
  // At least 57 bits, lowest first.
  uint64_t Window() const { return LoadLe<uint64_t>(stream + (bit >> 3)) >> (bit & 7); }
  // bit_count <= 32.
  uint32_t Take(uint32_t bit_count) {
    const auto value = static_cast<uint32_t>(Window() & ((uint64_t{1} << bit_count) - 1));
    bit += bit_count;
    return value;
  }
};

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_BIT_STREAM_H_
