#include "isthmus/base/bytes.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <random>

#include "tests/support/errors.h"

namespace isthmus {
namespace {

using testing::ExpectError;

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

ByteVector Bytes(std::initializer_list<int> values) {
  ByteVector bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

ByteVector VarintBytes(uint64_t value) {
  ByteWriter writer;
  writer.Varint(value);
  return writer.Release();
}

uint64_t ReadVarint(const ByteVector& bytes) {
  ByteReader reader(bytes);
  const uint64_t value = reader.Varint();
  reader.ExpectEnd();
  return value;
}

TEST(ByteWriterTest, IntegersAreLittleEndian) {
  ByteWriter writer;
  writer.U8(0x01);
  writer.Le<uint16_t>(0x0302);
  writer.Le<uint32_t>(0x07060504);
  writer.Le<uint64_t>(0x0F0E0D0C0B0A0908);
  EXPECT_EQ(writer.Release(), Bytes({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(ByteWriterTest, VarintsAreTheShortestLeb128) {
  EXPECT_EQ(VarintBytes(0), Bytes({0x00}));
  EXPECT_EQ(VarintBytes(127), Bytes({0x7F}));
  EXPECT_EQ(VarintBytes(128), Bytes({0x80, 0x01}));
  EXPECT_EQ(VarintBytes(300), Bytes({0xAC, 0x02}));
  EXPECT_EQ(VarintBytes(kMax), Bytes({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}));
}

TEST(ByteReaderTest, ReadsBackWhatWasWritten) {
  ByteWriter writer;
  writer.U8(200);
  writer.Varint(1u << 20);
  writer.String("name");
  writer.Le<uint64_t>(kMax);
  writer.Append(AsBytes("tail"));
  const ByteVector bytes = writer.Release();

  ByteReader reader(bytes);
  EXPECT_EQ(reader.U8(), 200);
  EXPECT_EQ(reader.Varint(), 1u << 20);
  EXPECT_EQ(reader.String(4), "name");
  EXPECT_EQ(reader.Le<uint64_t>(), kMax);
  EXPECT_EQ(reader.remaining(), 4u);
  EXPECT_EQ(AsText(reader.Take(4)), "tail");
  EXPECT_EQ(reader.position(), bytes.size());
  reader.ExpectEnd();
}

TEST(ByteReaderTest, RefusesEveryTruncation) {
  ByteWriter writer;
  writer.U8(1);
  writer.Varint(kMax);
  writer.String("abc");
  writer.Le<uint32_t>(5);
  const ByteVector whole = writer.Release();
  for (size_t length = 0; length < whole.size(); ++length) {
    const ByteVector bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    ExpectError(ErrorCode::kCorrupt, [&] {
      ByteReader reader(bytes);
      reader.U8();
      reader.Varint();
      reader.String(3);
      reader.Le<uint32_t>();
    });
  }
}

TEST(ByteReaderTest, VarintsRoundTripAtEveryBitLength) {
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    for (uint64_t value : {power - 1, power, power + 1}) {
      EXPECT_EQ(ReadVarint(VarintBytes(value)), value);
    }
  }
  EXPECT_EQ(ReadVarint(VarintBytes(kMax)), kMax);
}

TEST(ByteReaderTest, RandomVarintsRoundTrip) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t value = random() >> (random() % 64);
    EXPECT_EQ(ReadVarint(VarintBytes(value)), value);
  }
}

TEST(ByteReaderTest, RefusesVarintsThatAreNotTheShortest) {
  for (const ByteVector& bytes :
       {Bytes({0x80, 0x00}), Bytes({0xFF, 0x00}), Bytes({0x80, 0x80, 0x00}),
        Bytes({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x00})}) {
    ExpectError(
        ErrorCode::kCorrupt, [&] { ReadVarint(bytes); }, "offset 0", "shortest");
  }
}

TEST(ByteReaderTest, RefusesVarintsOver64Bits) {
  for (const ByteVector& bytes :
       {Bytes({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02}),
        Bytes({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x81, 0x00}),
        Bytes({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01})}) {
    ExpectError(
        ErrorCode::kCorrupt, [&] { ReadVarint(bytes); }, "offset 0", "64 bits");
  }
}

TEST(ByteReaderTest, RefusesToTakeMoreThanIsLeftAndNamesThePosition) {
  const ByteVector bytes(10);
  ByteReader reader(bytes);
  reader.Take(4);
  for (uint64_t count : {uint64_t{7}, kMax, kMax - 3}) {
    ExpectError(
        ErrorCode::kCorrupt, [&] { reader.Take(count); }, fmt::format("{} bytes", count),
        "offset 4", "6 are left");
  }
  EXPECT_EQ(reader.Take(6).size(), 6u);
  EXPECT_EQ(reader.Take(0).size(), 0u);
}

TEST(ByteReaderTest, RefusesStringsOverTheirLimit) {
  const ByteVector bytes = Bytes({3, 'a', 'b', 'c'});
  ExpectError(
      ErrorCode::kCorrupt, [&] { ByteReader(bytes).String(2); }, "3 bytes", "at most 2");
  EXPECT_EQ(ByteReader(bytes).String(3), "abc");
}

TEST(ByteReaderTest, RefusesStringsWhoseLengthIsALie) {
  const ByteVector bytes = VarintBytes(kMax);
  ExpectError(ErrorCode::kCorrupt, [&] { ByteReader(bytes).String(kMax); });
}

TEST(ByteReaderTest, RefusesBytesAfterTheEnd) {
  const ByteVector bytes(3);
  ByteReader reader(bytes);
  reader.U8();
  ExpectError(
      ErrorCode::kCorrupt, [&] { reader.ExpectEnd(); }, "2 unexpected bytes", "offset 1");
}

TEST(CheckedArithmeticTest, TellsWhetherTheResultFits) {
  uint64_t result = 0;
  EXPECT_TRUE(CheckedMul(kMax / 2, 2, &result));
  EXPECT_EQ(result, kMax - 1);
  EXPECT_FALSE(CheckedMul(kMax / 2 + 1, 2, &result));
  EXPECT_TRUE(CheckedAdd(kMax - 1, 1, &result));
  EXPECT_EQ(result, kMax);
  EXPECT_FALSE(CheckedAdd(kMax, 1, &result));
}

}  // namespace
}  // namespace isthmus
