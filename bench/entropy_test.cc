#include "bench/entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace isthmus::bench {
namespace {

using tensor::Dtype;

ByteVector Bytes(const std::vector<uint8_t>& values) {
  ByteVector bytes;
  for (const uint8_t value : values) bytes.push_back(std::byte{value});
  return bytes;
}

ByteVector Bf16(const std::vector<uint16_t>& values) {
  ByteVector bytes(values.size() * 2);
  for (size_t i = 0; i < values.size(); ++i) StoreLe(bytes.data() + 2 * i, values[i]);
  return bytes;
}

ChangeCounts Count(Dtype dtype, const ByteVector& before, const ByteVector& after) {
  ChangeCounts counts;
  counts.Add(dtype, before, after);
  return counts;
}

TEST(Entropy, NothingChangedIsNoInformation) {
  const ChangeCounts counts = Count(Dtype::kBf16, Bf16({1, 2, 3}), Bf16({1, 2, 3}));
  EXPECT_EQ(counts.elements(), 3U);
  EXPECT_EQ(counts.changed(), 0U);
  EXPECT_EQ(counts.BitsWithOneDensity(), 0);
  EXPECT_EQ(counts.BitsGivenKey(), 0);
}

// Two of four elements: 4·H2(1/2) = 4 bits. Two steps, +1 and -1: a bit each.
TEST(Entropy, PositionsAndStepsOfOneKey) {
  const ByteVector before = Bf16({0x3F81, 0x3F82, 0x3F83, 0x3F84});
  const ByteVector after = Bf16({0x3F82, 0x3F82, 0x3F82, 0x3F84});
  const ChangeCounts counts = Count(Dtype::kBf16, before, after);
  EXPECT_EQ(counts.changed(), 2U);
  EXPECT_DOUBLE_EQ(counts.BitsWithOneDensity(), 6);
  EXPECT_DOUBLE_EQ(counts.BitsGivenKey(), 6);
}

// Exponents tell everything: all elements of one change by +1, none of the other.
TEST(Entropy, AKeyThatDecidesCostsNothing) {
  const ByteVector before = Bf16({0x3F81, 0x0081, 0x3F83, 0x0083});
  const ByteVector after = Bf16({0x3F81, 0x0082, 0x3F83, 0x0084});
  const ChangeCounts counts = Count(Dtype::kBf16, before, after);
  EXPECT_DOUBLE_EQ(counts.BitsWithOneDensity(), 4);
  EXPECT_DOUBLE_EQ(counts.BitsGivenKey(), 0);
}

// The sign is no part of the key, and a step away from zero is +1 for positive, -1 for negative.
TEST(Entropy, SignsShareAKey) {
  const ByteVector before = Bf16({0x3F81, 0xBF81});
  const ByteVector after = Bf16({0x3F82, 0xBF82});
  const ChangeCounts counts = Count(Dtype::kBf16, before, after);
  EXPECT_DOUBLE_EQ(counts.BitsGivenKey(), 2);
}

// Of 1024 elements 1 changes: 1024·H2(1/1024), of which log2(1024) is choosing the element and the
// rest is saying that it is one.
TEST(Entropy, RareChange) {
  const ByteVector before(1024, std::byte{0x41});
  ByteVector after = before;
  after[700] = std::byte{0x42};
  const ChangeCounts counts = Count(Dtype::kF8E4M3, before, after);
  EXPECT_NEAR(counts.BitsWithOneDensity(), 10 + 1023 * std::log2(1024.0 / 1023), 1e-9);
}

// 8 codes in an I32; one goes from 3 to 4. Keys are the codes, so only the four 3s are in question.
TEST(Entropy, PackedCodesCountAsElements) {
  const ByteVector before = Bytes({0x33, 0x33, 0x55, 0x66});
  const ByteVector after = Bytes({0x43, 0x33, 0x55, 0x66});
  const ChangeCounts counts = Count(Dtype::kI32, before, after);
  EXPECT_EQ(counts.elements(), 8U);
  EXPECT_EQ(counts.changed(), 1U);
  EXPECT_DOUBLE_EQ(counts.BitsWithOneDensity(), 8 * 3 - 7 * std::log2(7));
  EXPECT_DOUBLE_EQ(counts.BitsGivenKey(), 4 * 2 - 3 * std::log2(3));
}

TEST(Entropy, DtypesHaveDensitiesOfTheirOwn) {
  const ByteVector codes_before = Bytes({0x41, 0x41});
  const ByteVector codes_after = Bytes({0x42, 0x42});
  ChangeCounts counts = Count(Dtype::kF8E4M3, codes_before, codes_after);
  counts.Add(Count(Dtype::kF32, ByteVector(400), ByteVector(400)));
  EXPECT_EQ(counts.elements(), 102U);
  EXPECT_DOUBLE_EQ(counts.BitsWithOneDensity(), 0);
}

TEST(Entropy, PartsAddUpToTheWhole) {
  const ByteVector before = Bf16({0x3F81, 0x3F82, 0x0083, 0x0084});
  const ByteVector after = Bf16({0x3F82, 0x3F82, 0x0082, 0x0084});
  ChangeCounts parts;
  for (const size_t at : {size_t{0}, size_t{4}}) {
    ChangeCounts part;
    part.Add(Dtype::kBf16, ByteSpan(before).subspan(at, 4), ByteSpan(after).subspan(at, 4));
    parts.Add(part);
  }
  const ChangeCounts whole = Count(Dtype::kBf16, before, after);
  EXPECT_DOUBLE_EQ(parts.BitsWithOneDensity(), whole.BitsWithOneDensity());
  EXPECT_DOUBLE_EQ(parts.BitsGivenKey(), whole.BitsGivenKey());
}

}  // namespace
}  // namespace isthmus::bench
