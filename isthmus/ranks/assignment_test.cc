#include "isthmus/ranks/assignment.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "isthmus/codec/model.h"
#include "tests/support/errors.h"
#include "tests/support/seed.h"

namespace isthmus::ranks {
namespace {

using tensor::Dtype;
using tensor::VersionTable;
using testing::ExpectError;

constexpr uint64_t kChunk = codec::kChunkUnits;

VersionTable OutlineOf(const std::vector<std::pair<std::string, tensor::Shape>>& tensors,
                       Dtype dtype = Dtype::kBf16) {
  VersionTable table;
  table.shards.push_back({"model.safetensors", {}});
  for (const auto& [name, shape] : tensors) {
    table.tensors.push_back({name, dtype, shape, "model.safetensors", {}});
  }
  return table;
}

uint64_t UnitsOf(const Assignment& assignment, uint32_t rank) {
  uint64_t units = 0;
  for (const size_t chunk : assignment.OwnedBy(rank)) {
    units += assignment.layout().chunks()[chunk].units;
  }
  return units;
}

// Rows [first, first + rows) of the only tensor, 2 MiB units of 1024 a row.
HeldRows Rows(uint64_t first, uint64_t rows) {
  return {"w", Dtype::kBf16, {2048, 1024}, first, rows};
}
const VersionTable kTwoChunks = OutlineOf({{"w", {2048, 1024}}});

TEST(HoldingTest, IsUnitsOfTheTensor) {
  EXPECT_EQ(HoldingOf(kTwoChunks, 3, Rows(1000, 48)), (Holding{3, 0, 1000 * 1024, 48 * 1024}));
  EXPECT_EQ(HoldingOf(kTwoChunks, 0, Rows(0, 2048)), (Holding{0, 0, 0, 2 * kChunk}));
  EXPECT_EQ(HoldingOf(kTwoChunks, 0, Rows(2048, 0)).units, 0u);
}

TEST(HoldingTest, AScalarIsOneRowAndAnEmptyTensorNone) {
  const VersionTable outline = OutlineOf({{"empty", {0, 7}}, {"scalar", {}}});
  EXPECT_EQ(HoldingOf(outline, 1, {"scalar", Dtype::kBf16, {}, 0, 1}), (Holding{1, 1, 0, 1}));
  EXPECT_EQ(HoldingOf(outline, 1, {"empty", Dtype::kBf16, {0, 7}, 0, 0}).units, 0u);
}

TEST(HoldingTest, HalvesOf64BitElementsAreUnits) {
  const VersionTable outline = OutlineOf({{"w", {10, 3}}}, Dtype::kF64);
  EXPECT_EQ(HoldingOf(outline, 0, {"w", Dtype::kF64, {10, 3}, 2, 3}), (Holding{0, 0, 12, 18}));
}

TEST(HoldingTest, RowsThatEndWithinAByteAreOnlyHeldWhole) {
  const VersionTable outline = OutlineOf({{"w", {4, 3}}}, Dtype::kF4);
  EXPECT_EQ(HoldingOf(outline, 0, {"w", Dtype::kF4, {4, 3}, 0, 4}), (Holding{0, 0, 0, 6}));
  ExpectError(
      ErrorCode::kInvalid,
      [&] {
        HoldingOf(outline, 0, {"w", Dtype::kF4, {4, 3}, 0, 1});
      },
      "tensor w", "within a byte");
}

TEST(HoldingTest, AnotherModelIsRefused) {
  const auto refused = [](const HeldRows& rows, const auto&... parts) {
    ExpectError(
        ErrorCode::kInvalid, [&] { HoldingOf(kTwoChunks, 5, rows); }, "rank 5", parts...);
  };
  refused({"x", Dtype::kBf16, {2048, 1024}, 0, 1}, "no tensor x");
  refused({"w", Dtype::kF16, {2048, 1024}, 0, 1}, "F16 [2048,1024]", "BF16 [2048,1024]");
  refused({"w", Dtype::kBf16, {2048, 1025}, 0, 1}, "[2048,1025]");
  refused(Rows(2048, 1), "rows 2048 to 2049 of tensor w with 2048");
  refused(Rows(UINT64_MAX, 2), "tensor w with 2048");
}

Assignment Assign(const VersionTable& outline, const std::vector<std::vector<HeldRows>>& held) {
  std::vector<Holding> holdings;
  for (uint32_t rank = 0; rank < held.size(); ++rank) {
    for (const HeldRows& rows : held[rank]) holdings.push_back(HoldingOf(outline, rank, rows));
  }
  return {outline, holdings, static_cast<uint32_t>(held.size())};
}

TEST(AssignmentTest, ChunksHeldByOneRankHaveNoSlices) {
  const Assignment all = Assign(kTwoChunks, {{Rows(0, 1024)}, {Rows(1024, 1024)}});
  EXPECT_THAT(all.OwnedBy(0), ::testing::ElementsAre(0));
  EXPECT_THAT(all.OwnedBy(1), ::testing::ElementsAre(1));
  EXPECT_TRUE(all.SlicesOf(0).empty());
  EXPECT_TRUE(all.SlicesOf(1).empty());
}

TEST(AssignmentTest, AChunkGoesToWhoHoldsMostOfIt) {
  const Assignment all = Assign(kTwoChunks, {{Rows(0, 600)}, {Rows(600, 1448)}});
  EXPECT_EQ(all.Owner(0), 0u);
  EXPECT_THAT(all.SlicesOf(1).at(0), ::testing::ElementsAre(Slice{0, 600 * 1024, 424 * 1024}));
  const auto holders = all.Holders(0);
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[1].rank, 1u);
  EXPECT_EQ(holders[1].first, 600u * 1024);
}

TEST(AssignmentTest, AmongEqualsItGoesToWhoHasLeast) {
  // Each rank holds half of each pool.
  std::vector<std::pair<std::string, tensor::Shape>> tensors;
  std::vector<std::vector<HeldRows>> held(2);
  for (int i = 0; i < 8; ++i) {
    const tensor::Shape shape = {kChunk / 2};
    tensors.emplace_back("t" + std::to_string(i), shape);
    held[0].push_back({tensors.back().first, Dtype::kBf16, shape, 0, kChunk / 4});
    held[1].push_back({tensors.back().first, Dtype::kBf16, shape, kChunk / 4, kChunk / 4});
  }
  const Assignment all = Assign(OutlineOf(tensors), held);
  EXPECT_THAT(all.OwnedBy(0), ::testing::ElementsAre(0, 2));
  EXPECT_THAT(all.OwnedBy(1), ::testing::ElementsAre(1, 3));
  // In a pool a rank's rows of two tensors are no neighbours.
  EXPECT_EQ(all.SlicesOf(0).at(1).size(), 4u);
}

TEST(AssignmentTest, NeighboursInAPoolAreOneSlice) {
  const VersionTable outline = OutlineOf({{"a", {100}}, {"b", {100}}, {"c", {300}}});
  const Assignment all =
      Assign(outline, {{{"c", Dtype::kBf16, {300}, 0, 300}},
                       {{"a", Dtype::kBf16, {100}, 0, 100}, {"b", Dtype::kBf16, {100}, 0, 100}}});
  EXPECT_EQ(all.Owner(0), 0u);
  EXPECT_THAT(all.SlicesOf(1).at(0), ::testing::ElementsAre(Slice{0, 0, 200}));
}

TEST(AssignmentTest, WhatNobodyHoldsIsRefused) {
  const auto refused = [](const std::vector<std::vector<HeldRows>>& held, const auto&... parts) {
    ExpectError(
        ErrorCode::kInvalid, [&] { Assign(kTwoChunks, held); }, "tensor w", parts...);
  };
  refused({{Rows(0, 1000)}, {Rows(1001, 1047)}}, "no rank holds rows 1000 to 1000 of 2048");
  refused({{Rows(1, 2047)}}, "no rank holds rows 0 to 0");
  refused({{Rows(0, 2047)}}, "no rank holds rows 2047 to 2047");
  refused({{}}, "no rank holds rows 0 to 2047");
}

TEST(AssignmentTest, WhatTwoHoldIsRefused) {
  const auto refused = [](const std::vector<std::vector<HeldRows>>& held, const auto&... parts) {
    ExpectError(
        ErrorCode::kInvalid, [&] { Assign(kTwoChunks, held); }, "tensor w", parts...);
  };
  refused({{Rows(0, 1025)}, {Rows(1024, 1024)}}, "rank 0 and rank 1 both hold row 1024");
  refused({{Rows(0, 2048)}, {}, {Rows(5, 1)}}, "rank 0 and rank 2 both hold row 5");
  refused({{Rows(0, 2048), Rows(0, 2048)}}, "rank 0 and rank 0 both hold row 0");
}

TEST(AssignmentTest, HostileNumbersAreRefused) {
  const auto refused = [](const Holding& holding) {
    ExpectError(ErrorCode::kInvalid, [&] { Assignment(kTwoChunks, {holding}, 2); });
  };
  refused({2, 0, 0, 2 * kChunk});
  refused({0, 1, 0, 2 * kChunk});
  refused({0, 0, UINT64_MAX, 2});
  refused({0, 0, 1, UINT64_MAX});
  refused({0, 0, 0, 2 * kChunk + 1});
}

// Random models, cut at random: holders cover each chunk, owners hold most of it, and slices are
// all that is not the owner's.
TEST(AssignmentTest, EveryUnitIsOwnedOrASliceOnce) {
  std::mt19937 random(testing::TestSeed());
  for (int round = 0; round < 30; ++round) {
    const auto ranks = static_cast<uint32_t>(1 + random() % 7);
    std::vector<std::pair<std::string, tensor::Shape>> tensors;
    std::vector<std::vector<HeldRows>> held(ranks);
    for (int i = 0; i < 12; ++i) {
      const tensor::Shape shape = {1 + random() % 4000, 1 + random() % 900};
      const std::string name = "t" + std::to_string(10 + i);
      tensors.emplace_back(name, shape);
      for (uint64_t row = 0; row < shape[0];) {
        const uint64_t rows = std::min<uint64_t>(shape[0] - row, 1 + random() % shape[0]);
        held[random() % ranks].push_back({name, Dtype::kBf16, shape, row, rows});
        row += rows;
      }
    }
    const Assignment all = Assign(OutlineOf(tensors), held);
    uint64_t owned = 0;
    for (uint32_t rank = 0; rank < ranks; ++rank) owned += UnitsOf(all, rank);
    uint64_t units = 0;
    uint64_t foreign = 0;
    for (size_t chunk = 0; chunk < all.layout().chunks().size(); ++chunk) {
      uint64_t at = 0;
      std::map<uint32_t, uint64_t> of;
      for (const auto& range : all.Holders(chunk)) {
        ASSERT_EQ(range.first, at);
        at += range.units;
        of[range.rank] += range.units;
      }
      ASSERT_EQ(at, all.layout().chunks()[chunk].units);
      for (const auto& [rank, held_units] : of) ASSERT_LE(held_units, of[all.Owner(chunk)]);
      units += at;
      foreign += at - of[all.Owner(chunk)];
    }
    EXPECT_EQ(owned, units);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      for (const auto& [owner, slices] : all.SlicesOf(rank)) {
        EXPECT_NE(owner, rank);
        EXPECT_TRUE(std::ranges::is_sorted(slices));
        for (const Slice& slice : slices) {
          EXPECT_EQ(all.Owner(slice.chunk), owner);
          foreign -= slice.units;
        }
      }
    }
    EXPECT_EQ(foreign, 0u);
  }
}

}  // namespace
}  // namespace isthmus::ranks
