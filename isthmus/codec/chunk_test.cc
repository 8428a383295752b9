#include "isthmus/codec/chunk.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "isthmus/codec/direct.h"
#include "isthmus/codec/scan.h"
#include "tests/support/errors.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::ExpectError;

struct Pair {
  ByteVector before;
  ByteVector after;
};

// `after` differs from `before` in about one unit of `one_in`, half of the time by one step.
Pair RandomPair(std::mt19937* random, size_t unit_bytes, size_t units, unsigned one_in) {
  Pair pair;
  pair.before.resize(unit_bytes * units);
  for (std::byte& byte : pair.before) byte = static_cast<std::byte>((*random)());
  pair.after = pair.before;
  for (size_t i = 0; i < units; ++i) {
    if ((*random)() % one_in != 0) continue;
    const size_t at = i * unit_bytes + (*random)() % unit_bytes;
    pair.after[at] =
        (*random)() % 2 == 0 ? static_cast<std::byte>((*random)()) : pair.after[at] ^ std::byte{1};
  }
  pair.after[0] = ~pair.before[0];  // at least one change
  return pair;
}

ByteVector Encode(Encoding encoding, const Pair& pair, size_t unit_bytes) {
  ByteVector payload;
  std::vector<uint32_t> positions(pair.after.size() / unit_bytes + kScanSlack);
  positions.resize(ScanChanged(pair.before, pair.after, unit_bytes, 0, positions.data()));
  switch (encoding) {
    case Encoding::kRaw:
      EncodeRaw(pair.after, unit_bytes, &payload);
      break;
    case Encoding::kXor:
      EncodeXor(pair.before, pair.after, unit_bytes, &payload);
      break;
    case Encoding::kDirect:
      EncodeDirect(pair.before, pair.after, unit_bytes, positions, &payload);
      break;
  }
  return payload;
}

constexpr Encoding kEncodings[] = {Encoding::kRaw, Encoding::kXor, Encoding::kDirect};

TEST(ChunkTest, EveryEncodingGivesTheExactBytesBackAtEveryDensity) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const size_t unit_bytes : {1, 2, 4}) {
    for (const size_t units : {size_t{1}, size_t{2}, size_t{47}, size_t{4096}, kChunkUnits}) {
      for (const unsigned one_in : {1U, 3U, 100U, 100000U}) {
        const Pair pair = RandomPair(&random, unit_bytes, units, one_in);
        for (const Encoding encoding : kEncodings) {
          const ByteVector payload = Encode(encoding, pair, unit_bytes);
          ByteVector chunk = pair.before;
          ApplyChunk(encoding, unit_bytes, payload, chunk);
          ASSERT_EQ(chunk, pair.after)
              << EncodingName(encoding) << " " << unit_bytes << " " << units << " " << one_in;
        }
      }
    }
  }
}

TEST(ChunkTest, NonFiniteValuesZerosAndSubnormalsSurvive) {
  // BF16: every kind of value turned into every other kind.
  const std::vector<uint16_t> values = {0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x3F80,
                                        0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC0, 0x7FFF, 0xFFFF};
  Pair pair;
  for (const uint16_t from : values) {
    for (const uint16_t to : values) {
      for (ByteVector* side : {&pair.before, &pair.after}) {
        side->resize(side->size() + 2);
        StoreLe(side->data() + side->size() - 2, side == &pair.before ? from : to);
      }
    }
  }
  for (const Encoding encoding : kEncodings) {
    ByteVector chunk = pair.before;
    ApplyChunk(encoding, 2, Encode(encoding, pair, 2), chunk);
    EXPECT_EQ(chunk, pair.after) << EncodingName(encoding);
  }
}

// Whatever the payload, the result stays inside the chunk: guard bytes around it are untouched.
void ApplyGuarded(Encoding encoding, size_t unit_bytes, ByteSpan payload,
                  const ByteVector& before) {
  constexpr size_t kGuard = 64;
  ByteVector memory(before.size() + 2 * kGuard, std::byte{0xA5});
  std::copy(before.begin(), before.end(), memory.begin() + kGuard);
  try {
    ApplyChunk(encoding, unit_bytes, payload,
               MutableByteSpan(memory).subspan(kGuard, before.size()));
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
  }
  for (size_t i = 0; i < kGuard; ++i) {
    ASSERT_EQ(memory[i], std::byte{0xA5});
    ASSERT_EQ(memory[memory.size() - 1 - i], std::byte{0xA5});
  }
}

TEST(ChunkTest, EveryFlippedBitAndEveryTruncationEndsInAnErrorOrInsideTheChunk) {
  std::mt19937 random(1);
  for (const size_t unit_bytes : {1, 2, 4}) {
    const Pair pair = RandomPair(&random, unit_bytes, 700, 6);
    for (const Encoding encoding : kEncodings) {
      const ByteVector payload = Encode(encoding, pair, unit_bytes);
      for (size_t bit = 0; bit < 8 * payload.size(); ++bit) {
        ByteVector damaged = payload;
        damaged[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        ApplyGuarded(encoding, unit_bytes, damaged, pair.before);
      }
      for (size_t size = 0; size < payload.size(); ++size) {
        ByteVector chunk = pair.before;
        ExpectError(ErrorCode::kCorrupt, [&] {
          ApplyChunk(encoding, unit_bytes, ByteSpan(payload).first(size), chunk);
        });
      }
    }
  }
}

TEST(ChunkTest, RandomBytesEndInAnErrorOrInsideTheChunk) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const ByteVector before(333 * 4);
  for (int i = 0; i < 20000; ++i) {
    ByteVector payload(random() % 60);
    for (std::byte& byte : payload)
      byte = static_cast<std::byte>(random() % (i % 2 == 0 ? 256 : 4));
    ApplyGuarded(kEncodings[i % 3], size_t{1} << (random() % 3), payload, before);
  }
}

TEST(ChunkTest, DirectCostsLittleMoreThanTheEntropyOfItsGapsAndSteps) {
  // 1 % of 2^20 units, steps of +1 or -1 with equal chance: H(0.01)/0.01 + 1 = 9.08 bits.
  std::mt19937 random(2);
  Pair pair;
  pair.before.resize(2 * kChunkUnits);
  for (size_t i = 0; i < kChunkUnits; ++i) StoreLe(pair.before.data() + 2 * i, uint16_t{0x3F80});
  pair.after = pair.before;
  size_t changes = 0;
  for (size_t i = 0; i < kChunkUnits; ++i) {
    if (random() % 100 != 0) continue;
    ++changes;
    StoreLe(pair.after.data() + 2 * i, random() % 2 == 0 ? uint16_t{0x3F81} : uint16_t{0x3F7F});
  }
  const ByteVector payload = Encode(Encoding::kDirect, pair, 2);
  EXPECT_LT(8.0 * static_cast<double>(payload.size()) / static_cast<double>(changes), 9.9);
}

TEST(ChunkTest, NamesOfEncodingsAreReadBack) {
  for (const Encoding encoding : kEncodings) {
    EXPECT_EQ(ParseEncoding(EncodingName(encoding)), encoding);
  }
  EXPECT_EQ(ParseEncoding("context"), std::nullopt);
}

}  // namespace
}  // namespace isthmus::codec
