#include "isthmus/codec/chunk_encode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/support/memory_tensors.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::MemoryTensors;
using tensor::Dtype;

constexpr double kDensities[] = {0.001, 0.01, 0.05, 0.2, 0.5, 1};

class ChunkEncodeTest : public ::testing::Test {
 protected:
  ChunkEncodeTest()
      : seed_(std::random_device()()), trace_(__FILE__, __LINE__, seed_), random_(seed_) {}

  // Weights as training leaves them, as BF16.
  ByteVector Weights(size_t count) {
    std::normal_distribution<float> normal(0, 0.02F);
    ByteVector bytes(2 * count);
    for (size_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<uint32_t>(normal(random_));
      StoreLe(bytes.data() + 2 * i, static_cast<uint16_t>(bits >> 16));
    }
    return bytes;
  }

  // A step of one, up or down, for so many of the elements.
  ByteVector Stepped(const ByteVector& weights, double density) {
    std::bernoulli_distribution changes(density);
    ByteVector stepped = weights;
    for (size_t i = 0; i < weights.size() / 2; ++i) {
      if (!changes(random_)) continue;
      const int step = random_() % 2 == 0 ? 1 : -1;
      const uint16_t bits = LoadLe<uint16_t>(weights.data() + 2 * i);
      StoreLe(stepped.data() + 2 * i, static_cast<uint16_t>(bits + step));
    }
    return stepped;
  }

  // New weights, which have nothing to do with the old ones, for so many of the elements.
  ByteVector Replaced(const ByteVector& weights, double density) {
    const ByteVector fresh = Weights(weights.size() / 2);
    std::bernoulli_distribution changes(density);
    ByteVector replaced = weights;
    for (size_t i = 0; i < weights.size(); i += 2) {
      if (!changes(random_)) continue;
      StoreLe(replaced.data() + i, LoadLe<uint16_t>(fresh.data() + i));
    }
    return replaced;
  }

  std::vector<EncodedChunk> Encode(const MemoryTensors& before, const MemoryTensors& after,
                                   EncodingPolicy policy = std::nullopt) {
    const ChunkLayout layout = before.layout();
    ChunkEncoder encoder(layout, policy, before.Source(), after.Source(), pool_, false);
    std::vector<EncodedChunk> chunks;
    std::vector<size_t> all(layout.chunks().size());
    std::iota(all.begin(), all.end(), size_t{0});
    for (ChunkOutcome& outcome : encoder.Encode(all)) {
      chunks.push_back(std::move(outcome.encoded));
    }
    return chunks;
  }

  EncodedChunk EncodeOne(const ByteVector& before, const ByteVector& after,
                         EncodingPolicy policy = std::nullopt) {
    MemoryTensors old_tensors;
    old_tensors.Add("t", Dtype::kBf16, before);
    MemoryTensors new_tensors;
    new_tensors.Add("t", Dtype::kBf16, after);
    return std::move(Encode(old_tensors, new_tensors, policy).at(0));
  }

  // Never much larger than the compressed byte planes, and exact.
  EncodedChunk ExpectSmallAndExact(const ByteVector& before, const ByteVector& after) {
    EncodedChunk encoded = EncodeOne(before, after);
    ByteVector raw;
    EncodeRaw(after, 2, &raw);
    EXPECT_LE(static_cast<double>(encoded.payload.size()),
              1.01 * static_cast<double>(raw.size()) + 64);
    ByteVector bytes = before;
    ApplyChunk(encoded.encoding, encoded.model.get(), Dtype::kBf16, encoded.payload, bytes);
    EXPECT_EQ(bytes, after);
    return encoded;
  }

  unsigned seed_;
  ::testing::ScopedTrace trace_;
  std::mt19937 random_;
  ThreadPool pool_{2};
};

TEST_F(ChunkEncodeTest, SmallStepsAreNeverCostlierThanTheTensor) {
  const ByteVector weights = Weights(200000);
  for (const double density : kDensities) {
    SCOPED_TRACE(density);
    const EncodedChunk encoded = ExpectSmallAndExact(weights, Stepped(weights, density));
    if (density <= 0.2) {
      EXPECT_TRUE(IsSparse(encoded.encoding));
    }
  }
}

TEST_F(ChunkEncodeTest, RandomNewWeightsAreNeverCostlierThanTheTensor) {
  const ByteVector weights = Weights(200000);
  for (const double density : kDensities) {
    SCOPED_TRACE(density);
    const EncodedChunk encoded = ExpectSmallAndExact(weights, Replaced(weights, density));
    if (density <= 0.01) {
      EXPECT_TRUE(IsSparse(encoded.encoding));
    }
    if (density == 1) {
      EXPECT_FALSE(IsSparse(encoded.encoding));
    }
  }
}

TEST_F(ChunkEncodeTest, RandomBitsAreDense) {
  ByteVector before(100000);
  ByteVector after(100000);
  for (std::byte& byte : before) byte = static_cast<std::byte>(random_());
  for (std::byte& byte : after) byte = static_cast<std::byte>(random_());
  EXPECT_EQ(ExpectSmallAndExact(before, after).encoding, Encoding::kRaw);
}

TEST_F(ChunkEncodeTest, ATensorThatBecomesZeroIsRaw) {
  const ByteVector weights = Weights(200000);
  const EncodedChunk encoded = ExpectSmallAndExact(weights, ByteVector(weights.size()));
  EXPECT_EQ(encoded.encoding, Encoding::kRaw);
  EXPECT_LT(encoded.payload.size(), 200U);
}

TEST_F(ChunkEncodeTest, BitsThatFlipEverywhereAlikeAreXor) {
  const ByteVector before = Weights(100000);
  ByteVector after = before;
  for (size_t i = 1; i < after.size(); i += 2) after[i] ^= std::byte{0x80};
  const EncodedChunk encoded = ExpectSmallAndExact(before, after);
  EXPECT_EQ(encoded.encoding, Encoding::kXor);
  EXPECT_LT(encoded.payload.size(), 200U);
}

TEST_F(ChunkEncodeTest, UnchangedChunksHaveNoPayload) {
  const ByteVector weights = Weights(1000);
  for (const EncodingPolicy policy :
       {EncodingPolicy(), EncodingPolicy(Encoding::kRaw), EncodingPolicy(Encoding::kContext)}) {
    EXPECT_TRUE(EncodeOne(weights, weights, policy).payload.empty());
  }
}

TEST_F(ChunkEncodeTest, AChosenEncodingIsUsed) {
  const ByteVector weights = Weights(10000);
  const ByteVector stepped = Stepped(weights, 0.01);
  for (const Encoding encoding :
       {Encoding::kRaw, Encoding::kXor, Encoding::kDirect, Encoding::kContext}) {
    EXPECT_EQ(EncodeOne(weights, stepped, encoding).encoding, encoding);
  }
}

TEST_F(ChunkEncodeTest, DirectNeverHasClassesAndNeedsNoOldBytesForThem) {
  const ByteVector weights = Weights(100000);
  const EncodedChunk encoded = EncodeOne(weights, Stepped(weights, 0.05), Encoding::kDirect);
  EXPECT_EQ(encoded.model->classes.size(), 1U);
}

TEST_F(ChunkEncodeTest, ASparsePayloadThatWouldNotFitGivesWayToRaw) {
  // One tensor, so one model: half of its steps are 1, which makes random ones a bit costlier than
  // the bits that they replace.
  MemoryTensors before;
  before.Add("t", Dtype::kF32, ByteVector(8 * kChunkUnits));
  MemoryTensors after = before;
  for (size_t i = 0; i < kChunkUnits; ++i) after.data[0][4 * i] = std::byte{1};
  for (size_t i = 4 * kChunkUnits; i < 8 * kChunkUnits; ++i) {
    after.data[0][i] = static_cast<std::byte>(random_());
  }
  for (const Encoding encoding : {Encoding::kDirect, Encoding::kContext}) {
    const std::vector<EncodedChunk> chunks = Encode(before, after, encoding);
    EXPECT_EQ(chunks.at(0).encoding, encoding);
    EXPECT_EQ(chunks.at(1).encoding, Encoding::kRaw);
    EXPECT_LE(chunks.at(1).payload.size(), 4 * kChunkUnits + kPayloadSlackBytes);
  }
}

TEST_F(ChunkEncodeTest, WhereChangesFollowTheOldValueContextIsMuchSmaller) {
  // Updates of one size: below it all weights change, above it the fewer the larger they are.
  const ByteVector weights = Weights(200000);
  ByteVector stepped = weights;
  for (size_t i = 0; i < weights.size(); i += 2) {
    const auto bits = LoadLe<uint16_t>(weights.data() + i);
    const int halvings = (bits >> 7 & 0xFF) - 113;
    const double density = std::min(1.0, std::exp2(-halvings));
    if (!std::bernoulli_distribution(density)(random_)) continue;
    StoreLe(stepped.data() + i, static_cast<uint16_t>(bits + 1));
  }
  const EncodedChunk chosen = ExpectSmallAndExact(weights, stepped);
  EXPECT_EQ(chosen.encoding, Encoding::kContext);
  const EncodedChunk direct = EncodeOne(weights, stepped, Encoding::kDirect);
  EXPECT_LT(chosen.payload.size() * 10, direct.payload.size() * 9);
}

// Two tensors of two chunks each, with changes of these densities.
class ModelSharingTest : public ChunkEncodeTest {
 protected:
  std::vector<EncodedChunk> EncodePair(double first, double second) {
    MemoryTensors before;
    MemoryTensors after;
    const ByteVector weights = Weights(kChunkUnits + kChunkUnits / 4);
    before.Add("a", Dtype::kBf16, weights);
    before.Add("b", Dtype::kBf16, weights);
    after.Add("a", Dtype::kBf16, Stepped(weights, first));
    after.Add("b", Dtype::kBf16, Stepped(weights, second));
    return Encode(before, after);
  }
};

TEST_F(ModelSharingTest, TensorsThatChangeAlikeShareAModel) {
  const std::vector<EncodedChunk> chunks = EncodePair(0.01, 0.01);
  ASSERT_EQ(chunks.size(), 4U);
  for (const EncodedChunk& chunk : chunks) EXPECT_EQ(chunk.model, chunks[0].model);
}

TEST_F(ModelSharingTest, NothingIsLeftOfTheBatchBefore) {
  MemoryTensors before;
  before.Add("a", Dtype::kBf16, Weights(2 * kChunkUnits));
  before.Add("b", Dtype::kBf16, Weights(1000));
  MemoryTensors after = before;
  for (ByteVector& weights : after.data) weights = Stepped(weights, 0.01);
  const ChunkLayout layout = before.layout();
  const auto encoder = [&] {
    return std::make_unique<ChunkEncoder>(layout, std::nullopt, before.Source(), after.Source(),
                                          pool_);
  };
  const auto kept = encoder();
  // Not only neighbours: a rank encodes the chunks that it owns.
  using Chunks = std::vector<size_t>;
  for (const Chunks& chunks : {Chunks{0, 1}, Chunks{2}, Chunks{1, 2}, Chunks{0, 2}}) {
    const std::vector<ChunkOutcome> found = kept->Encode(chunks);
    const std::vector<ChunkOutcome> fresh = encoder()->Encode(chunks);
    ASSERT_EQ(found.size(), fresh.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].encoded.payload, fresh[i].encoded.payload);
      EXPECT_EQ(found[i].changed, fresh[i].changed);
      EXPECT_EQ(found[i].pieces[0].new_leaves, fresh[i].pieces[0].new_leaves);
    }
  }
}

TEST_F(ModelSharingTest, TensorsThatChangeOtherwiseHaveTheirOwn) {
  const std::vector<EncodedChunk> chunks = EncodePair(0.001, 0.1);
  ASSERT_EQ(chunks.size(), 4U);
  EXPECT_EQ(chunks[0].model, chunks[1].model);
  EXPECT_NE(chunks[1].model, chunks[2].model);
  EXPECT_EQ(chunks[2].model, chunks[3].model);
}

TEST_F(ChunkEncodeTest, TheNumberOfThreadsDoesNotShow) {
  const ByteVector weights = Weights(100000);
  const ByteVector stepped = Stepped(weights, 0.02);
  const EncodedChunk two = EncodeOne(weights, stepped);
  MemoryTensors before;
  before.Add("t", Dtype::kBf16, weights);
  MemoryTensors after;
  after.Add("t", Dtype::kBf16, stepped);
  ThreadPool one(1);
  const ByteVector part = PartBetween(before, after, std::nullopt, one);
  EXPECT_EQ(part, PartBetween(before, after, std::nullopt, pool_));
  EXPECT_EQ(AsText(Part::Open(part).Payload(Part::Open(part).chunks()[0])), AsText(two.payload));
}

}  // namespace
}  // namespace isthmus::codec
