// Activity bitmaps: u32 elements, then a bit stream. What is read is written back as the same bits.
#include "isthmus/codec/activity.h"

#include "fuzz/fuzz.h"
#include "isthmus/codec/element.h"

namespace isthmus::fuzz {
namespace {

using codec::Activity;
using codec::BitCursor;

// The bits [first, first + count) of a stream as bytes of their own.
ByteVector BitsOf(ByteSpan stream, uint64_t first, uint64_t count) {
  ByteVector bits((count + 7) / 8);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = first + i;
    const auto bit = std::to_integer<uint32_t>(stream[at / 8]) >> (at % 8) & 1;
    bits[i / 8] |= static_cast<std::byte>(bit << (i % 8));
  }
  return bits;
}

void CheckWrittenBack(const Activity& activity, uint64_t elements, ByteSpan stream,
                      uint64_t bit_count) {
  ByteVector buffer(elements / 64 + 64 + codec::kPrependSlack);
  codec::PrependBits out(buffer);
  PrependActivity(activity, elements, &out);
  const auto front = out.Finish();
  const ByteSpan written(front.begin, buffer.data() + buffer.size());
  Require(written.size() * 8 == bit_count + front.pad, "a bitmap is written with another size");
  Require(BitsOf(written, front.pad, bit_count) == BitsOf(stream, 0, bit_count),
          "a bitmap is written otherwise than it was read");
}

void CheckWords(const Activity& activity, uint64_t elements) {
  const std::vector<uint64_t> bits = activity.WordBits(elements);
  const uint64_t words = (elements + 63) / 64;
  Require(bits.size() == (words + 63) / 64, "a bitmap of words has another size");
  if (words % 64 != 0) {
    Require(bits.back() >> (words % 64) == 0, "words behind the chunk are active");
  }
}

void FuzzActivity(Input in) {
  const uint64_t elements = 1 + in.Le<uint32_t>() % codec::kMaxChunkElements;
  ByteVector stream(in.rest().begin(), in.rest().end());
  stream.resize(stream.size() + codec::kStreamPadding);
  BitCursor cursor = {stream.data(), 0, in.rest().size() * 8};
  Activity activity;
  if (!Succeeds([&] { activity = codec::ReadActivity(&cursor, elements); })) return;
  Require(!cursor.Past(), "a bitmap ends behind its stream");
  CheckWrittenBack(activity, elements, stream, cursor.bit);
  CheckWords(activity, elements);
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzActivity({data, size});
  return 0;
}
