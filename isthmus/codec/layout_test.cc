#include "isthmus/codec/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace isthmus::codec {
namespace {

using tensor::Dtype;

struct Named {
  std::string name;
  Dtype dtype;
  uint64_t units;
};

ChunkLayout LayoutOf(const std::vector<Named>& tensors) {
  std::vector<LayoutTensor> infos;
  infos.reserve(tensors.size());
  for (const Named& tensor : tensors) {
    infos.push_back({tensor.name, tensor.dtype, tensor.units * tensor::UnitBytes(tensor.dtype)});
  }
  return ChunkLayout(infos);
}

// "name[first,units)" of each piece of each chunk.
std::vector<std::vector<std::string>> Describe(const std::vector<Named>& tensors) {
  const ChunkLayout layout = LayoutOf(tensors);
  std::vector<std::vector<std::string>> chunks;
  for (const ChunkLayout::Chunk& chunk : layout.chunks()) {
    chunks.emplace_back();
    for (const Piece& piece : layout.Pieces(chunk)) {
      chunks.back().push_back(tensors[piece.tensor].name + "[" + std::to_string(piece.first_unit) +
                              "," + std::to_string(piece.units) + ")");
    }
  }
  return chunks;
}

using Chunks = std::vector<std::vector<std::string>>;

TEST(LayoutTest, AFamilyIsTheNameWithoutItsDigits) {
  EXPECT_EQ(FamilyOf("model.layers.17.mlp.w2"), "model.layers..mlp.w");
  EXPECT_EQ(FamilyOf("0123456789"), "");
  EXPECT_EQ(FamilyOf("\xD9\xA3"), "\xD9\xA3");  // an Arabic digit is no ASCII digit
}

TEST(LayoutTest, LargeTensorsAreCutAndTheLastChunkMayBeShorter) {
  EXPECT_EQ(Describe({{"a", Dtype::kBf16, kChunkUnits}, {"b", Dtype::kBf16, 2 * kChunkUnits + 1}}),
            (Chunks{{"a[0,1048576)"}, {"b[0,1048576)"}, {"b[1048576,1048576)"}, {"b[2097152,1)"}}));
}

TEST(LayoutTest, TensorsGoByDtypeThenFamilyThenName) {
  constexpr uint64_t kLarge = kChunkUnits;
  EXPECT_EQ(Describe({{"b.10", Dtype::kBf16, kLarge},
                      {"b.9", Dtype::kBf16, kLarge},
                      {"a.9", Dtype::kBf16, kLarge},
                      {"c", Dtype::kF16, kLarge},      // id 14, before BF16's 15
                      {"b.1z", Dtype::kBf16, kLarge},  // family "b.z" comes after "b."
                      {"z", Dtype::kU8, kLarge}}),
            (Chunks{{"z[0,1048576)"},
                    {"c[0,1048576)"},
                    {"a.9[0,1048576)"},
                    {"b.10[0,1048576)"},
                    {"b.9[0,1048576)"},
                    {"b.1z[0,1048576)"}}));
}

TEST(LayoutTest, NamesCompareAsUnsignedBytes) {
  EXPECT_EQ(Describe({{"\xC3\xA9", Dtype::kU8, kChunkUnits}, {"z", Dtype::kU8, kChunkUnits}}),
            (Chunks{{"z[0,1048576)"}, {"\xC3\xA9[0,1048576)"}}));
}

TEST(LayoutTest, SmallTensorsShareAPoolBehindAllLargeOnes) {
  EXPECT_EQ(Describe({{"b", Dtype::kU8, 5},
                      {"a", Dtype::kU8, 3},
                      {"large", Dtype::kF32, kChunkUnits},
                      {"c", Dtype::kF32, 2}}),
            (Chunks{{"large[0,1048576)"}, {"a[0,3)", "b[0,5)"}, {"c[0,2)"}}));
}

TEST(LayoutTest, TheRestOfALargeTensorTakesNoSmallOnes) {
  EXPECT_EQ(Describe({{"a", Dtype::kU8, kChunkUnits + 1}, {"b", Dtype::kU8, 1}}),
            (Chunks{{"a[0,1048576)"}, {"a[1048576,1)"}, {"b[0,1)"}}));
}

TEST(LayoutTest, APoolIsFullAtAChunksUnits) {
  EXPECT_EQ(Describe({{"a", Dtype::kU8, kChunkUnits - 2}, {"b", Dtype::kU8, 2}}),
            (Chunks{{"a[0,1048574)", "b[0,2)"}}));
  // Only the last pool is asked, even if an earlier one had room.
  EXPECT_EQ(Describe({{"a", Dtype::kU8, kChunkUnits - 2},
                      {"b", Dtype::kU8, 3},
                      {"c", Dtype::kU8, 2},
                      {"d", Dtype::kI8, 1}}),
            (Chunks{{"a[0,1048574)"}, {"b[0,3)", "c[0,2)"}, {"d[0,1)"}}));
}

TEST(LayoutTest, TensorsWithoutUnitsAreInNoChunk) {
  EXPECT_EQ(Describe({{"a", Dtype::kU8, 0}}), Chunks{});
  EXPECT_EQ(Describe({}), Chunks{});
  EXPECT_EQ(Describe({{"a", Dtype::kU8, 1}, {"b", Dtype::kU8, 0}, {"c", Dtype::kU8, 1}}),
            (Chunks{{"a[0,1)", "c[0,1)"}}));
}

TEST(LayoutTest, UnitsOfWideElementsAreTheirHalves) {
  const ChunkLayout layout = ChunkLayout({{"a", Dtype::kF64, 8 * kChunkUnits}});
  ASSERT_EQ(layout.chunks().size(), 2U);
  EXPECT_EQ(layout.chunks()[0].bytes(), 4 * kChunkUnits);
}

TEST(LayoutTest, PoolsAreToldFromChunksOfOneTensor) {
  const ChunkLayout layout = LayoutOf({{"a", Dtype::kU8, kChunkUnits + 1}, {"b", Dtype::kU8, 1}});
  EXPECT_FALSE(layout.IsPool(0));
  EXPECT_FALSE(layout.IsPool(1));
  EXPECT_TRUE(layout.IsPool(2));
}

// Each tensor's units are in exactly one place of the layout, and chunks have no holes.
void ExpectCovers(const std::vector<Named>& tensors) {
  const ChunkLayout layout = LayoutOf(tensors);
  std::vector<uint64_t> next(tensors.size());
  for (const ChunkLayout::Chunk& chunk : layout.chunks()) {
    uint64_t at = 0;
    for (const Piece& piece : layout.Pieces(chunk)) {
      ASSERT_EQ(tensors[piece.tensor].dtype, chunk.dtype);
      ASSERT_EQ(piece.chunk_unit, at);
      ASSERT_EQ(piece.first_unit, next[piece.tensor]);
      ASSERT_GT(piece.units, 0U);
      next[piece.tensor] += piece.units;
      at += piece.units;
    }
    ASSERT_EQ(at, chunk.units);
    ASSERT_LE(at, kChunkUnits);
  }
  for (size_t i = 0; i < tensors.size(); ++i) ASSERT_EQ(next[i], tensors[i].units);
}

TEST(LayoutTest, EveryUnitIsInOneChunkWhateverTheOrderOfTheTensors) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    std::vector<Named> tensors(random() % 60);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const uint64_t most = uint64_t{1} << (random() % 23);
      tensors[i] = {"t" + std::to_string(random() % 5) + "." + std::to_string(i),
                    random() % 2 == 0 ? Dtype::kBf16 : Dtype::kF32, random() % most};
    }
    ExpectCovers(tensors);
    const Chunks chunks = Describe(tensors);
    std::ranges::shuffle(tensors, random);
    ASSERT_EQ(Describe(tensors), chunks);
  }
}

TEST(LayoutTest, AVersionTableIsCutLikeItsTensors) {
  tensor::VersionTable table;
  table.tensors = {{"a", Dtype::kBf16, {1024, 1025}, "s", {}},
                   {"b", Dtype::kF32, {}, "s", {}},
                   {"c", Dtype::kF4, {6}, "s", {}}};
  const ChunkLayout layout = ChunkLayout::Of(table);
  ASSERT_EQ(layout.chunks().size(), 4U);
  EXPECT_EQ(layout.chunks()[1].units, 1024U);
  EXPECT_EQ(layout.chunks()[2].units, 3U);  // F4, three bytes
  EXPECT_EQ(layout.chunks()[3].units, 1U);
  EXPECT_EQ(layout.Pieces(layout.chunks()[3])[0].tensor, 1U);
}

}  // namespace
}  // namespace isthmus::codec
