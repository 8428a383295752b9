#include "bench/peer_schemes.h"

#include <gtest/gtest.h>

namespace isthmus::bench {
namespace {

constexpr size_t kUnits = 400'000;

ByteVector Zeros() { return ByteVector(kUnits * 2); }

void Set(ByteVector* tensor, size_t index, uint16_t value) {
  StoreLe(tensor->data() + index * 2, value);
}

// Two tensors: one with changes that are neighbours, first, last and further apart than a short gap
// reaches (exactly so far, and farther than twice), one with a single change.
struct Pairs {
  Pairs() : before{Zeros(), Zeros()}, after(before) {
    for (const size_t index : {size_t{0}, size_t{1}, size_t{65'537}, size_t{300'000}, kUnits - 1}) {
      Set(&after[0], index, static_cast<uint16_t>(index % 251 + 1));
    }
    Set(&after[1], 7, 0xBEEF);
    for (size_t i = 0; i < 2; ++i) tensors.push_back({before[i], after[i]});
  }
  std::vector<ByteVector> before;
  std::vector<ByteVector> after;
  std::vector<TensorPair> tensors;
};

template <typename T>
T Take(ByteSpan* stream) {
  const T value = LoadLe<T>(stream->data());
  *stream = stream->subspan(sizeof value);
  return value;
}

TEST(PeerSchemes, DenseXorTurnsTheOldTensorsIntoTheNew) {
  Pairs pairs;
  const std::vector<ByteVector> streams = PeerStreams(PeerScheme::kDenseXor, pairs.tensors);
  ASSERT_EQ(streams.size(), 1U);
  ASSERT_EQ(streams[0].size(), 2 * Zeros().size());
  for (size_t i = 0; i < streams[0].size(); ++i) {
    const size_t tensor = i / (kUnits * 2);
    pairs.before[tensor][i % (kUnits * 2)] ^= streams[0][i];
  }
  EXPECT_EQ(pairs.before, pairs.after);
}

TEST(PeerSchemes, IndicesAndValuesTurnTheOldTensorsIntoTheNew) {
  Pairs pairs;
  const std::vector<ByteVector> streams = PeerStreams(PeerScheme::kIndexAndValue, pairs.tensors);
  ByteSpan indices = streams[0];
  ByteSpan values = streams[1];
  for (size_t i = 0; i < 6; ++i) {
    const auto index = Take<uint32_t>(&indices);
    Set(&pairs.before[i / 5], index, Take<uint16_t>(&values));
  }
  EXPECT_TRUE(indices.empty());
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(pairs.before, pairs.after);
}

TEST(PeerSchemes, ShortGapsAndValuesTurnTheOldTensorsIntoTheNew) {
  Pairs pairs;
  const std::vector<ByteVector> streams = PeerStreams(PeerScheme::kShortGapAndValue, pairs.tensors);
  ByteSpan gaps = streams[0];
  ByteSpan values = streams[1];
  for (size_t i = 0, position = 0; i < 6;) {
    const auto gap = Take<uint16_t>(&gaps);
    position += gap;
    if (gap == kMaxShortGap) continue;
    Set(&pairs.before[i / 5], position, Take<uint16_t>(&values));
    ++position;
    if (++i == 5) position = 0;  // the next tensor
  }
  EXPECT_TRUE(gaps.empty());
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(pairs.before, pairs.after);
}

TEST(PeerSchemes, SizesAreOfCompressedStreams) {
  const Pairs pairs;
  const uint64_t dense = PeerBytes(PeerScheme::kDenseXor, pairs.tensors);
  EXPECT_GT(dense, 6U);
  EXPECT_LT(dense, Zeros().size() / 100);
}

}  // namespace
}  // namespace isthmus::bench
