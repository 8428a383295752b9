#include "isthmus/codec/sample.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/support/sparse_chunk.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::ElementAt;
using ::isthmus::testing::ElementKind;
using ::isthmus::testing::kEveryWidth;
using ::isthmus::testing::RandomChunk;
using ::isthmus::testing::SparseChunk;
using ::isthmus::testing::StepOf;
using tensor::Dtype;

TEST(SampleTest, AtStrideOneEveryChangeIsSeenWithItsStepAndKey) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const ElementKind& kind : kEveryWidth) {
    const SparseChunk chunk = RandomChunk(kind, 20000, 0.02, &random);
    const ChunkSample sample = SampleChunk(kind.dtype, chunk.before, chunk.after, 1);
    const KeySample& found = kind.bits() == 4 ? sample.codes : sample.units;
    std::vector<PackedStep> steps;
    for (const uint32_t at : chunk.Positions()) {
      steps.push_back(StepOf(kind.bits(), ElementAt(chunk.before, kind.bits(), at),
                             ElementAt(chunk.after, kind.bits(), at)));
    }
    EXPECT_EQ(found.steps, steps);
    EXPECT_EQ(found.keys.size(), steps.size());
    EXPECT_EQ(found.elements, chunk.count());
    EXPECT_EQ(found.compared, chunk.count());
    EXPECT_EQ(std::reduce(found.counted_keys.begin(), found.counted_keys.end()), found.counted);
  }
}

TEST(SampleTest, KeysAreCountedAllOverTheChunk) {
  ByteVector bytes(2 * kChunkUnits);
  for (size_t i = 0; i < kChunkUnits; ++i) {  // the exponents 0 to 15, one after the other
    StoreLe(bytes.data() + 2 * i, static_cast<uint16_t>(i * 16 / kChunkUnits << 7));
  }
  const KeySample sample = SampleChunk(Dtype::kBf16, bytes, bytes, 1).units;
  EXPECT_GT(sample.counted, 1000U);
  for (size_t key = 0; key < 16; ++key) {
    const double share = sample.counted_keys[key] / static_cast<double>(sample.counted);
    EXPECT_NEAR(share, 1.0 / 16, 0.01) << key;
  }
}

TEST(SampleTest, ALargerStrideComparesLess) {
  const ByteVector before(kChunkUnits);
  const ByteVector after(kChunkUnits, std::byte{0x11});
  const ChunkSample sample = SampleChunk(Dtype::kU8, before, after, 4);
  EXPECT_EQ(sample.units.compared, kChunkUnits / 4);
  EXPECT_EQ(sample.units.keys.size(), kChunkUnits / 4);
  EXPECT_EQ(sample.units.elements, kChunkUnits);
  EXPECT_EQ(sample.codes.elements, 2 * kChunkUnits);
  EXPECT_EQ(sample.codes.keys.size(), kChunkUnits / 2);
  EXPECT_EQ(sample.changed, kChunkUnits / 4);
  EXPECT_EQ(sample.single_code, 0U);
}

// What is made of a tensor in which bytes change by `flip`.
Elements ElementsFor(Dtype dtype, std::byte flip) {
  const ByteVector before(4000);
  ByteVector after(4000);
  for (size_t i = 0; i < 4000; i += 40) after[i] = flip;
  const ChunkSample sample = SampleChunk(dtype, before, after, 1);
  EXPECT_EQ(sample.changed, 100U);
  return ChooseElements(dtype, sample.changed, sample.single_code);
}

TEST(SampleTest, PackedCodesAreToldFromIntegersByTheirChanges) {
  for (const Dtype dtype : {Dtype::kU8, Dtype::kI32, Dtype::kU32}) {
    EXPECT_EQ(ElementsFor(dtype, std::byte{0x30}), Elements::kCodes4);
    EXPECT_EQ(ElementsFor(dtype, std::byte{0x38}), Elements::kUnits);
    EXPECT_EQ(ChooseElements(dtype, 0, 0), Elements::kUnits);
    EXPECT_EQ(ChooseElements(dtype, 10, 9), Elements::kCodes4);
    EXPECT_EQ(ChooseElements(dtype, 10, 8), Elements::kUnits);
  }
  EXPECT_EQ(ElementsFor(Dtype::kF4, std::byte{0x38}), Elements::kCodes4);
  for (const Dtype dtype : {Dtype::kBf16, Dtype::kF8E4M3, Dtype::kI8, Dtype::kI64}) {
    EXPECT_EQ(ElementsFor(dtype, std::byte{0x30}), Elements::kUnits);
  }
}

}  // namespace
}  // namespace isthmus::codec
