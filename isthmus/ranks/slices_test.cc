#include "isthmus/ranks/slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "isthmus/codec/chain.h"
#include "isthmus/ranks/messages.h"
#include "tests/support/errors.h"
#include "tests/support/seed.h"

namespace isthmus::ranks {
namespace {

using tensor::Dtype;
using testing::ExpectError;

// Tensors of several dtypes, one a chunk and a half, and slices of their chunks.
class SlicesTest : public ::testing::Test {
 protected:
  SlicesTest() {
    tensor::VersionTable outline;
    outline.shards.push_back({"model.safetensors", {}});
    const auto add = [&](const std::string& name, Dtype dtype, uint64_t elements) {
      outline.tensors.push_back({name, dtype, {elements}, "model.safetensors", {}});
    };
    add("a", Dtype::kBf16, codec::kChunkUnits * 3 / 2);
    add("b", Dtype::kF4, 4000);
    add("c", Dtype::kF64, 500);
    add("d", Dtype::kF8E4M3, 3000);
    layout_.emplace(codec::ChunkLayout::Of(outline));
    for (size_t chunk = 0; chunk < layout_->chunks().size(); ++chunk) {
      before_.emplace_back(layout_->chunks()[chunk].bytes());
      for (std::byte& byte : before_.back()) byte = static_cast<std::byte>(random_());
      slices_.push_back({chunk, 10, 100});
      slices_.push_back({chunk, 300, layout_->chunks()[chunk].units - 300});
    }
    after_ = before_;
    for (ByteVector& chunk : after_) {
      for (size_t i = 0; i < chunk.size(); i += 97) chunk[i] ^= std::byte{1};
    }
  }

  CopySlice From(const std::vector<ByteVector>& chunks) const {
    return [this, &chunks](const Slice& slice, MutableByteSpan to) {
      const auto unit = tensor::UnitBytes(layout_->chunks()[slice.chunk].dtype);
      const ByteSpan from = ByteSpan(chunks[slice.chunk]).subspan(slice.first * unit, to.size());
      std::ranges::copy(from, to.begin());
    };
  }
  ByteVector Encode() {
    return EncodeSlices(*layout_, slices_, From(before_), From(after_), {}, pool_);
  }
  std::vector<ByteVector> Decode(ByteSpan part) {
    return DecodeSlices(*layout_, slices_, From(before_), part, 4);
  }

  std::mt19937 random_{testing::TestSeed()};
  ThreadPool pool_{2};
  std::optional<codec::ChunkLayout> layout_;
  std::vector<ByteVector> before_, after_;  // per chunk
  std::vector<Slice> slices_;
};

TEST_F(SlicesTest, TheOwnerGetsTheNewBytes) {
  const std::vector<ByteVector> got = Decode(Encode());
  for (size_t i = 0; i < slices_.size(); ++i) {
    ByteVector expected(got[i].size());
    From(after_)(slices_[i], expected);
    EXPECT_EQ(got[i], expected) << i;
  }
}

TEST_F(SlicesTest, NoChangeIsAPartToo) {
  after_ = before_;
  const ByteVector part = Encode();
  EXPECT_LT(part.size(), 400u);
  EXPECT_EQ(Decode(part).size(), slices_.size());
}

TEST_F(SlicesTest, OtherOldBytesAreNoticed) {
  const ByteVector part = Encode();
  before_[0][21] ^= std::byte{1};
  EXPECT_THROW(Decode(part), WrongBaselines);
}

TEST_F(SlicesTest, SlicesOfAnotherPlanAreNoticed) {
  const ByteVector part = Encode();
  slices_.back().units -= 1;
  EXPECT_THROW(Decode(part), WrongBaselines);
}

TEST_F(SlicesTest, DamageIsNoticed) {
  const ByteVector part = Encode();
  for (int i = 0; i < 200; ++i) {
    ByteVector damaged = part;
    damaged[random_() % damaged.size()] ^= std::byte{static_cast<unsigned char>(1 << i % 8)};
    ExpectError(ErrorCode::kCorrupt, [&] { Decode(damaged); });
  }
  ExpectError(ErrorCode::kCorrupt, [&] { Decode({}); });
}

}  // namespace
}  // namespace isthmus::ranks
