#include "isthmus/codec/chain.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "isthmus/tensor/position_sum.h"
#include "tests/support/errors.h"
#include "tests/support/memory_tensors.h"
#include "tests/support/old_units.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::ExpectError;
using ::isthmus::testing::MemoryTensors;
using ::isthmus::testing::PartBetween;
using ::isthmus::testing::TakeBack;
using tensor::Dtype;

class ChainTest : public ::testing::Test {
 protected:
  ChainTest() : seed_(std::random_device()()), trace_(__FILE__, __LINE__, seed_), random_(seed_) {
    // Two chunks of their own and two pools.
    first_.Add("large", Dtype::kBf16, RandomBytes(2 * kChunkUnits + 200));
    first_.Add("small.1", Dtype::kBf16, RandomBytes(2000));
    first_.Add("small.2", Dtype::kBf16, RandomBytes(600));
    first_.Add("small.3", Dtype::kF32, RandomBytes(400));
    first_.table.files = {{"config.json", 2, {}}};
  }

  ByteVector RandomBytes(size_t size) {
    ByteVector bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
    return bytes;
  }

  MemoryTensors Changed(const MemoryTensors& from, unsigned one_in) {
    MemoryTensors changed = from;
    for (ByteVector& bytes : changed.data) {
      for (std::byte& byte : bytes) {
        if (random_() % one_in == 0) byte ^= static_cast<std::byte>(1 + random_() % 2);
      }
    }
    return changed;
  }

  const Part* Open(ByteVector bytes) {
    bytes_.push_back(std::move(bytes));
    parts_.push_back(Part::Open(bytes_.back()));
    return &parts_.back();
  }
  const Part* Finish(PartBuilder* builder) {
    ByteVector bytes;
    builder->Finish(std::nullopt, [&bytes](ByteSpan piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    return Open(std::move(bytes));
  }
  // A part with one chunk, raw.
  const Part* ChunkPart(uint64_t number, size_t payload_bytes = 10) {
    PartBuilder builder;
    ChunkEntry entry;
    entry.number = number;
    builder.AddChunk(entry, nullptr, ByteVector(payload_bytes));
    return Finish(&builder);
  }
  const Part* FilePart(const std::string& path, FileKind kind) {
    PartBuilder builder;
    builder.AddFile(path, kind, AsBytes("new"));
    return Finish(&builder);
  }

  void ExpectRefused(const std::vector<Patch>& patches, std::string_view why) const {
    ExpectError(
        ErrorCode::kCorrupt, [&] { Chain(first_.table, patches); }, std::string(why));
  }

  void ExpectFolds(const Chain& chain, const MemoryTensors& to) const {
    const ChunkLayout layout = first_.layout();
    for (size_t c = 0; c < layout.chunks().size(); ++c) {
      ByteVector bytes = first_.Chunk(layout, c);
      chain.FoldChunk(c, bytes);
      EXPECT_EQ(AsText(bytes), AsText(to.Chunk(layout, c))) << "chunk " << c;
      bytes = first_.Chunk(layout, c);
      OldUnits old;
      chain.FoldChunk(c, bytes, &old);
      EXPECT_EQ(AsText(bytes), AsText(to.Chunk(layout, c))) << "chunk " << c;
      EXPECT_EQ(TakeBack(bytes, old, tensor::UnitBytes(layout.chunks()[c].dtype)),
                first_.Chunk(layout, c));
    }
    for (size_t i = 0; i < to.data.size(); ++i) {
      const size_t unit_bytes = tensor::UnitBytes(to.table.tensors[i].dtype);
      EXPECT_EQ(chain.SumChange(i), tensor::PositionSum(to.data[i], unit_bytes, 0) -
                                        tensor::PositionSum(first_.data[i], unit_bytes, 0));
    }
  }

  unsigned seed_;
  ::testing::ScopedTrace trace_;
  std::mt19937 random_;
  ThreadPool pool_{2};
  MemoryTensors first_;
  std::deque<ByteVector> bytes_;
  std::deque<Part> parts_;
};

TEST_F(ChainTest, SeveralPatchesFoldToTheLastVersionPoolsIncluded) {
  const std::vector<EncodingPolicy> policies = {std::nullopt, Encoding::kXor, Encoding::kContext,
                                                Encoding::kDirect, Encoding::kRaw};
  std::vector<Patch> patches;
  MemoryTensors last = first_;
  for (const EncodingPolicy policy : policies) {
    const MemoryTensors next = Changed(last, 100);
    patches.push_back({Open(PartBetween(last, next, policy, pool_))});
    last = next;
    ExpectFolds(Chain(first_.table, patches), last);
  }
}

TEST_F(ChainTest, ThePartsOfOnePatchMayHaveOneTensorEach) {
  // The chunks of "large" in two parts: both have an entry for it.
  const MemoryTensors next = Changed(first_, 5);
  PartBuilder builder;
  Patch patch;
  DiffChunks({first_.table, next.table, first_.Source(), next.Source()}, std::nullopt, pool_,
             NoProgress(), [&](ChunkDiff diff) {
               AddChunkDiff(std::move(diff), &builder);
               patch.push_back(Finish(&builder));
             });
  ASSERT_EQ(patch.size(), 4U);
  EXPECT_EQ(patch[0]->tensors()[0].name, patch[1]->tensors()[0].name);
  ExpectFolds(Chain(first_.table, {patch}), next);
}

TEST_F(ChainTest, ChunksThatNoPatchTouchesStayAsTheyAre) {
  MemoryTensors next = first_;
  next.data[3][5] ^= std::byte{1};
  const Chain chain(first_.table, {{Open(PartBetween(first_, next, std::nullopt, pool_))}});
  for (size_t c = 0; c < 3; ++c) EXPECT_FALSE(chain.Touches(c));
  EXPECT_TRUE(chain.Touches(3));
  EXPECT_FALSE(chain.Names(0));
  EXPECT_TRUE(chain.Names(3));
  ExpectFolds(chain, next);
}

TEST_F(ChainTest, AChunkInTwoPartsOfAPatchIsRefused) {
  ExpectRefused({{ChunkPart(1), ChunkPart(1)}}, "chunk 1: it is in two parts of one patch");
  EXPECT_NO_THROW(Chain(first_.table, {{ChunkPart(1)}, {ChunkPart(1)}}));
  EXPECT_NO_THROW(Chain(first_.table, {{ChunkPart(1), ChunkPart(2)}}));
}

TEST_F(ChainTest, AChunkBeyondTheLastOneIsRefused) {
  EXPECT_NO_THROW(Chain(first_.table, {{ChunkPart(3)}}));
  ExpectRefused({{ChunkPart(4)}}, "chunk 4: the base has 4");
  ExpectRefused({{ChunkPart(kMaxChunkNumber - 1)}}, "the base has 4");
}

TEST_F(ChainTest, APayloadTooLargeForItsChunkIsRefused) {
  const size_t most = 2600 + kPayloadSlackBytes;  // chunk 2: small.1 and small.2
  EXPECT_NO_THROW(Chain(first_.table, {{ChunkPart(2, most)}}));
  ExpectRefused({{ChunkPart(2, most + 1)}}, "chunk 2: payload of 3625 bytes, at most 3624 allowed");
}

TEST_F(ChainTest, ADamagedPayloadNamesItsChunkAndTensor) {
  const Chain chain(first_.table, {{ChunkPart(3)}});
  ByteVector bytes = first_.Chunk(first_.layout(), 3);
  ExpectError(
      ErrorCode::kCorrupt, [&] { chain.FoldChunk(3, bytes); }, "chunk 3", "small.3");
}

TEST_F(ChainTest, FilesComeChangeAndGoAlongTheChain) {
  const Chain chain(first_.table, {{FilePart("added.txt", FileKind::kContent)},
                                   {FilePart("config.json", FileKind::kRemoved)},
                                   {FilePart("model.safetensors", FileKind::kShardHeader)}});
  ASSERT_EQ(chain.outline().files.size(), 1U);
  EXPECT_EQ(chain.outline().files[0].path, "added.txt");
  EXPECT_EQ(chain.outline().files[0].sha256, Sha256(AsBytes("new")));
  EXPECT_EQ(chain.outline().shards[0].header, Sha256(AsBytes("new")));
  EXPECT_EQ(chain.outline().tensors, first_.table.tensors);
  EXPECT_EQ(chain.files().size(), 3U);
}

TEST_F(ChainTest, FilesThatCannotBeAreRefused) {
  ExpectRefused({{FilePart("none.txt", FileKind::kRemoved)}}, "the base has none");
  ExpectRefused({{FilePart("none.safetensors", FileKind::kShardHeader)}}, "the base has no shard");
  ExpectRefused({{FilePart("model.safetensors", FileKind::kContent)}}, "as a plain file");
  ExpectRefused({{FilePart("config.json/a", FileKind::kContent)}}, "makes a folder of it");
  ExpectRefused({{FilePart("a", FileKind::kContent), FilePart("a", FileKind::kContent)}},
                "file a: it is in two parts of one patch");
}

TEST_F(ChainTest, WithoutPatchesTheBaseIsTheResult) {
  const Chain chain(first_.table, {});
  EXPECT_EQ(chain.outline(), first_.table);
  ExpectFolds(chain, first_);
}

}  // namespace
}  // namespace isthmus::codec
