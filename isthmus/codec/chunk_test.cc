#include "isthmus/codec/chunk.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/old_units.h"
#include "tests/support/sparse_chunk.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::CountChanged;
using ::isthmus::testing::ElementKind;
using ::isthmus::testing::EncodeChunk;
using ::isthmus::testing::ExpectError;
using ::isthmus::testing::kEveryWidth;
using ::isthmus::testing::RandomChunk;
using ::isthmus::testing::SparseChunk;
using ::isthmus::testing::SparsePayload;
using ::isthmus::testing::TakeBack;

constexpr Encoding kEncodings[] = {Encoding::kRaw, Encoding::kXor, Encoding::kDirect,
                                   Encoding::kContext};

SparsePayload Encode(Encoding encoding, const SparseChunk& chunk) {
  const size_t unit_bytes = tensor::UnitBytes(chunk.kind.dtype);
  SparsePayload encoded;
  switch (encoding) {
    case Encoding::kRaw:
      EncodeRaw(chunk.after, unit_bytes, &encoded.payload);
      break;
    case Encoding::kXor:
      EncodeXor(chunk.before, chunk.after, unit_bytes, &encoded.payload);
      break;
    case Encoding::kDirect:
      return EncodeChunk(chunk, {});
    case Encoding::kContext:
      return EncodeChunk(chunk, {2, 5, 40, 130});
  }
  return encoded;
}

void ExpectGivesBack(Encoding encoding, const SparseChunk& chunk) {
  const SparsePayload encoded = Encode(encoding, chunk);
  const std::string what =
      fmt::format("{} {} bits, {}", EncodingName(encoding), chunk.kind.bits(), chunk.count());
  ByteVector bytes = chunk.before;
  ApplyChunk(encoding, &encoded.model, chunk.kind.dtype, encoded.payload, bytes);
  ASSERT_EQ(bytes, chunk.after) << what;
  bytes = chunk.before;
  OldUnits old;
  ApplyChunk(encoding, &encoded.model, chunk.kind.dtype, encoded.payload, bytes, &old);
  ASSERT_EQ(bytes, chunk.after) << what;
  const size_t unit_bytes = tensor::UnitBytes(chunk.kind.dtype);
  ASSERT_EQ(TakeBack(bytes, old, unit_bytes), chunk.before) << what;
  ASSERT_EQ(old.list().size(), CountChanged(chunk.before, chunk.after, unit_bytes)) << what;
}

TEST(ChunkTest, EveryEncodingGivesTheExactBytesBackAtEveryDensity) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const ElementKind& kind : kEveryWidth) {
    for (const size_t count : {2, 48, 4096, 100000}) {
      for (const double share : {1.0, 0.3, 0.01, 0.00001}) {
        const SparseChunk chunk = RandomChunk(kind, count, share, &random);
        for (const Encoding encoding : kEncodings) ExpectGivesBack(encoding, chunk);
      }
    }
  }
}

TEST(ChunkTest, NonFiniteValuesZerosAndSubnormalsSurvive) {
  // BF16: every kind of value turned into every other kind.
  const std::vector<uint16_t> values = {0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x3F80,
                                        0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC0, 0x7FFF, 0xFFFF};
  SparseChunk chunk = {{tensor::Dtype::kBf16}, {}, {}};
  for (const uint16_t from : values) {
    for (const uint16_t to : values) {
      for (ByteVector* side : {&chunk.before, &chunk.after}) {
        side->resize(side->size() + 2);
        StoreLe(side->data() + side->size() - 2, side == &chunk.before ? from : to);
      }
    }
  }
  for (const Encoding encoding : kEncodings) ExpectGivesBack(encoding, chunk);
}

// Whatever the payload, the result stays inside the chunk: guard bytes around it are untouched.
void ApplyGuarded(Encoding encoding, const Model& model, tensor::Dtype dtype, ByteSpan payload,
                  const ByteVector& before) {
  constexpr size_t kGuard = 64;
  ByteVector memory(before.size() + 2 * kGuard, std::byte{0xA5});
  std::copy(before.begin(), before.end(), memory.begin() + kGuard);
  try {
    ApplyChunk(encoding, &model, dtype, payload,
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
  for (const ElementKind& kind : kEveryWidth) {
    const SparseChunk chunk = RandomChunk(kind, 700, 0.15, &random);
    for (const Encoding encoding : kEncodings) {
      const auto [model, payload] = Encode(encoding, chunk);
      for (size_t bit = 0; bit < 8 * payload.size(); ++bit) {
        ByteVector damaged = payload;
        damaged[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        ApplyGuarded(encoding, model, kind.dtype, damaged, chunk.before);
      }
      for (size_t size = 0; size < payload.size(); ++size) {
        ByteVector bytes = chunk.before;
        ExpectError(ErrorCode::kCorrupt, [&] {
          ApplyChunk(encoding, &model, kind.dtype, ByteSpan(payload).first(size), bytes);
        });
      }
    }
  }
}

TEST(ChunkTest, RandomBytesEndInAnErrorOrInsideTheChunk) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const ElementKind& kind : kEveryWidth) {
    const SparseChunk chunk = RandomChunk(kind, 1332, 0.2, &random);
    for (const Encoding encoding : kEncodings) {
      const Model model = Encode(encoding, chunk).model;
      for (int i = 0; i < 2000; ++i) {
        ByteVector payload(random() % 60);
        for (std::byte& byte : payload) {
          byte = static_cast<std::byte>(random() % (i % 2 == 0 ? 256 : 4));
        }
        ApplyGuarded(encoding, model, kind.dtype, payload, chunk.before);
      }
    }
  }
}

TEST(ChunkTest, DirectCostsLittleMoreThanTheEntropyOfItsGapsAndSteps) {
  // 1 % of 2^20 units, steps of +1 or -1 with equal chance: H(0.01)/0.01 + 1 = 9.08 bits.
  std::mt19937 random(2);
  SparseChunk chunk = {{tensor::Dtype::kBf16}, ByteVector(2 * kChunkUnits), {}};
  for (size_t i = 0; i < kChunkUnits; ++i) StoreLe(chunk.before.data() + 2 * i, uint16_t{0x3F80});
  chunk.after = chunk.before;
  size_t changes = 0;
  for (size_t i = 0; i < kChunkUnits; ++i) {
    if (random() % 100 != 0) continue;
    ++changes;
    StoreLe(chunk.after.data() + 2 * i, random() % 2 == 0 ? uint16_t{0x3F81} : uint16_t{0x3F7F});
  }
  const ByteVector payload = Encode(Encoding::kDirect, chunk).payload;
  EXPECT_LT(8.0 * static_cast<double>(payload.size()) / static_cast<double>(changes), 9.2);
}

TEST(ChunkTest, NamesOfEncodingsAreReadBack) {
  for (const Encoding encoding : kEncodings) {
    EXPECT_EQ(ParseEncoding(EncodingName(encoding)), encoding);
  }
  EXPECT_EQ(ParseEncoding("zip"), std::nullopt);
}

TEST(ChunkTest, DirectAndContextAreTheSparseOnes) {
  EXPECT_FALSE(IsSparse(Encoding::kRaw));
  EXPECT_FALSE(IsSparse(Encoding::kXor));
  EXPECT_TRUE(IsSparse(Encoding::kDirect));
  EXPECT_TRUE(IsSparse(Encoding::kContext));
}

}  // namespace
}  // namespace isthmus::codec
