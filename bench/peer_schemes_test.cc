#include "bench/peer_schemes.h"

#include <gtest/gtest.h>

#include <bit>

namespace isthmus::bench {
namespace {

using tensor::Dtype;

constexpr uint64_t kRows = 1000;
constexpr uint64_t kColumns = 400;
constexpr size_t kUnits = kRows * kColumns;

// Two tensors of one dtype: a matrix with changes that are neighbours, first, last and further
// apart than a short gap reaches (exactly so far, and farther than twice), and a vector with one
// change.
class PeerSchemes : public ::testing::TestWithParam<Dtype> {
 protected:
  PeerSchemes() : before_{Ones(), Ones()}, after_(before_) {
    for (const size_t index : {size_t{0}, size_t{1}, size_t{65'537}, size_t{300'000}, kUnits - 1}) {
      Set(&after_[0], index, static_cast<uint32_t>(index % 251 + 2));
    }
    Set(&after_[1], 70'007, 0xBE);
    tensors_ = {
        TensorPair::Of({"matrix", GetParam(), {kRows, kColumns}, 0, 0}, before_[0], after_[0]),
        TensorPair::Of({"vector", GetParam(), {kUnits}, 0, 0}, before_[1], after_[1])};
  }

  size_t unit_bytes() const { return tensor::UnitBytes(GetParam()); }
  ByteVector Ones() const { return ByteVector(kUnits * unit_bytes(), std::byte{1}); }
  void Set(ByteVector* tensor, size_t index, uint32_t value) const {
    for (size_t i = 0; i < unit_bytes(); ++i) {
      (*tensor)[index * unit_bytes() + i] = static_cast<std::byte>(value >> (8 * i));
    }
  }
  std::vector<ByteVector> Streams(PeerScheme scheme) const { return PeerStreams(scheme, tensors_); }

  static uint32_t Take(size_t bytes, ByteSpan* stream) {
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= std::to_integer<uint32_t>((*stream)[i]) << (8 * i);
    *stream = stream->subspan(bytes);
    return value;
  }

  std::vector<ByteVector> before_;
  std::vector<ByteVector> after_;
  std::vector<TensorPair> tensors_;
};

TEST_P(PeerSchemes, DenseXorTurnsTheOldTensorsIntoTheNew) {
  const std::vector<ByteVector> streams = Streams(PeerScheme::kDenseXor);
  ASSERT_EQ(streams.size(), 1U);
  const size_t bytes = before_[0].size();
  ASSERT_EQ(streams[0].size(), 2 * bytes);
  for (size_t i = 0; i < 2 * bytes; ++i) before_[i / bytes][i % bytes] ^= streams[0][i];
  EXPECT_EQ(before_, after_);
}

TEST_P(PeerSchemes, IndicesAndValuesTurnTheOldTensorsIntoTheNew) {
  const std::vector<ByteVector> streams = Streams(PeerScheme::kIndexAndValue);
  ByteSpan indices = streams[0];
  ByteSpan values = streams[1];
  for (size_t i = 0; i < 6; ++i) {
    const uint32_t index = Take(4, &indices);
    Set(&before_[i / 5], index, Take(unit_bytes(), &values));
  }
  EXPECT_TRUE(indices.empty());
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(before_, after_);
}

TEST_P(PeerSchemes, ShortGapsAndValuesTurnTheOldTensorsIntoTheNew) {
  const std::vector<ByteVector> streams = Streams(PeerScheme::kShortGapAndValue);
  ByteSpan gaps = streams[0];
  ByteSpan values = streams[1];
  for (size_t i = 0, position = 0; i < 6;) {
    const uint32_t gap = Take(2, &gaps);
    position += gap;
    if (gap == kMaxShortGap) continue;
    Set(&before_[i / 5], position, Take(unit_bytes(), &values));
    ++position;
    if (++i == 5) position = 0;  // the next tensor
  }
  EXPECT_TRUE(gaps.empty());
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(before_, after_);
}

// The matrix's row gaps go up to 586, the vector's single one is 70,007: 16 and 32 bits.
TEST_P(PeerSchemes, RowsColumnsAndValuesTurnTheOldTensorsIntoTheNew) {
  const std::vector<ByteVector> streams = Streams(PeerScheme::kRowColumnAndValue);
  ASSERT_EQ(streams.size(), 3U);
  ByteSpan rows = streams[0];
  ByteSpan columns = streams[1];
  ByteSpan values = streams[2];
  uint64_t row = 0;
  uint64_t column = 0;
  for (size_t i = 0; i < 5; ++i) {
    const uint32_t gap = Take(2, &rows);
    const uint32_t number = Take(2, &columns);
    column = gap != 0 || i == 0 ? number : column + number;
    row += gap;
    Set(&before_[0], row * kColumns + column, Take(unit_bytes(), &values));
  }
  row = Take(4, &rows);
  EXPECT_EQ(Take(2, &columns), 0U);
  Set(&before_[1], row, Take(unit_bytes(), &values));
  EXPECT_TRUE(rows.empty() && columns.empty() && values.empty());
  EXPECT_EQ(before_, after_);
}

TEST_P(PeerSchemes, SizesAreOfCompressedStreams) {
  const uint64_t dense = PeerBytes(PeerScheme::kDenseXor, tensors_);
  EXPECT_GT(dense, 6U);
  EXPECT_LT(dense, before_[0].size() / 50);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, PeerSchemes,
                         ::testing::Values(Dtype::kF8E4M3, Dtype::kBf16, Dtype::kF32),
                         [](const auto& dtype) {
                           return std::string(tensor::DtypeName(dtype.param));
                         });

TEST(PeerDifferences, AreOfNumbersAndForBf16Only) {
  const auto bf16 = [](float value) {
    ByteVector bytes(2);
    StoreLe(bytes.data(), static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    return bytes;
  };
  const ByteVector before = bf16(1.5f);
  const ByteVector after = bf16(1.25f);
  const std::vector<ByteVector> streams =
      PeerStreams(PeerScheme::kRowColumnDifference, {{before, after, Dtype::kBf16, 1}});
  EXPECT_EQ(streams[2], bf16(-0.25f));
  EXPECT_EQ(streams[0], ByteVector(1));  // rows take a byte if they can
  EXPECT_TRUE(PeerTakes(PeerScheme::kRowColumnDifference, Dtype::kBf16));
  EXPECT_FALSE(PeerTakes(PeerScheme::kRowColumnDifference, Dtype::kF8E4M3));
}

}  // namespace
}  // namespace isthmus::bench
