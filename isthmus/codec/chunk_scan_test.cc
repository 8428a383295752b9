#include "isthmus/codec/chunk_scan.h"

#include <gtest/gtest.h>

#include <random>

#include "isthmus/tensor/position_sum.h"
#include "tests/support/memory_tensors.h"
#include "tests/support/sparse_chunk.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::ElementKind;
using ::isthmus::testing::EventsOf;
using ::isthmus::testing::kEveryWidth;
using ::isthmus::testing::MemoryTensors;
using ::isthmus::testing::RandomChunk;
using ::isthmus::testing::SparseChunk;
using tensor::Dtype;

MemoryTensors OneTensor(Dtype dtype, const ByteVector& bytes) {
  MemoryTensors tensors;
  tensors.Add("t", dtype, bytes);
  return tensors;
}

// The chunk's bytes as a pool of two tensors, cut at a unit.
MemoryTensors TwoTensors(Dtype dtype, const ByteVector& bytes, size_t cut) {
  const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(cut * tensor::UnitBytes(dtype));
  MemoryTensors tensors;
  tensors.Add("a", dtype, {bytes.begin(), at});
  tensors.Add("b", dtype, {at, bytes.end()});
  return tensors;
}

class ChunkScanTest : public ::testing::Test {
 protected:
  ChunkScanTest()
      : seed_(std::random_device()()), trace_(__FILE__, __LINE__, seed_), random_(seed_) {}

  unsigned seed_;
  ::testing::ScopedTrace trace_;
  std::mt19937 random_;
};

void ExpectEvents(const ChunkScan& scan, const SparseEvents& expected) {
  EXPECT_EQ(scan.events.classes, expected.classes);
  EXPECT_EQ(scan.events.gaps, expected.gaps);
  EXPECT_EQ(scan.events.steps, expected.steps);
  ASSERT_EQ(scan.events.activity.has_value(), expected.activity.has_value());
  if (!expected.activity) return;
  EXPECT_EQ(scan.events.activity->active, expected.activity->active);
}

ChunkScan Scan(const ChunkLayout& layout, size_t chunk, ByteSpan before, ByteSpan after,
               const ScanRequest& request) {
  ChunkScan scan;
  ScanChunk(layout, chunk, before, after, request, &scan);
  return scan;
}

// The scan orders strip by strip; a pool, codes and a bitmap are put in order afterwards.
TEST_F(ChunkScanTest, PutsTheChangesInOrder) {
  const std::vector<uint8_t> thresholds = {2, 5, 100};
  for (const ElementKind& kind : kEveryWidth) {
    const SparseChunk chunk = RandomChunk(kind, 150000, 0.02, &random_);
    const ClassRule rule(thresholds, KeyRuleOf(kind.elements, kind.dtype));
    const ScanRequest request = {true, &rule, kind.elements};
    for (const ChunkLayout& layout : {OneTensor(kind.dtype, chunk.before).layout(),
                                      TwoTensors(kind.dtype, chunk.before, 12345).layout()}) {
      const ChunkScan scan = Scan(layout, 0, chunk.before, chunk.after, request);
      EXPECT_EQ(scan.elements, chunk.count());
      ExpectEvents(scan, EventsOf(chunk, thresholds));
    }
  }
}

TEST_F(ChunkScanTest, ABitmapIsMadeWhereItSaves) {
  SparseChunk chunk = RandomChunk({Dtype::kBf16}, 200000, 0, &random_);
  chunk.after = chunk.before;
  for (size_t i = 70000; i < 80000; i += 3) chunk.after[2 * i] ^= std::byte{1};
  const ClassRule rule({120}, KeyRuleOf(Elements::kUnits, Dtype::kBf16));
  const ChunkScan scan = Scan(OneTensor(Dtype::kBf16, chunk.before).layout(), 0, chunk.before,
                              chunk.after, {true, &rule, Elements::kUnits});
  const auto activity = ChooseActivity(chunk.Positions(), chunk.count());
  ASSERT_TRUE(activity);
  ExpectEvents(scan, EventsOf(chunk, {120}, activity));
}

TEST_F(ChunkScanTest, DigestsAndSumsAreThoseOfTheTensors) {
  // A pool of two, the second of more than one strip.
  const ByteVector bytes = RandomChunk({Dtype::kBf16}, 200078, 0, &random_).before;
  const MemoryTensors before = TwoTensors(Dtype::kBf16, bytes, 77);
  MemoryTensors after = before;
  for (size_t i = 0; i < 200001; i += 7) after.data[1][2 * i] ^= std::byte{1};
  const ChunkLayout layout = before.layout();
  const ChunkScan scan = Scan(layout, 0, before.Chunk(layout, 0), after.Chunk(layout, 0), {});
  ASSERT_EQ(scan.pieces.size(), 2U);
  EXPECT_EQ(scan.pieces[0].changed, 0U);
  EXPECT_EQ(scan.pieces[1].changed, 200001U / 7 + 1);
  EXPECT_EQ(scan.changed, scan.pieces[1].changed);
  for (size_t i = 0; i < 2; ++i) {
    const PieceScan& piece = scan.pieces[i];
    EXPECT_EQ(tensor::DigestOfLeaves(piece.old_leaves), tensor::TensorDigest(before.data[i]));
    EXPECT_EQ(tensor::DigestOfLeaves(piece.new_leaves), tensor::TensorDigest(after.data[i]));
    EXPECT_EQ(piece.sum_change,
              tensor::PositionSum(after.data[i], 2, 0) - tensor::PositionSum(before.data[i], 2, 0));
  }
}

TEST_F(ChunkScanTest, LaterChunksOfATensorCountItsUnitsOn) {
  const SparseChunk chunk = RandomChunk({Dtype::kU8}, kChunkUnits + 1000, 0.001, &random_);
  const MemoryTensors before = OneTensor(Dtype::kU8, chunk.before);
  const MemoryTensors after = OneTensor(Dtype::kU8, chunk.after);
  const ChunkLayout layout = before.layout();
  uint64_t sum = 0;
  for (size_t c = 0; c < 2; ++c) {
    const ChunkScan scan = Scan(layout, c, before.Chunk(layout, c), after.Chunk(layout, c), {});
    sum += scan.pieces[0].sum_change;
  }
  EXPECT_EQ(sum, tensor::PositionSum(chunk.after, 1, 0) - tensor::PositionSum(chunk.before, 1, 0));
}

TEST_F(ChunkScanTest, NothingIsLeftOfTheChunkBefore) {
  const ClassRule rule({120}, KeyRuleOf(Elements::kUnits, Dtype::kBf16));
  const ScanRequest request = {true, &rule, Elements::kUnits};
  ChunkScan scan;
  for (const size_t count : {100000, 500, 100000, 70}) {
    SparseChunk chunk = RandomChunk({Dtype::kBf16}, count, 0.01, &random_);
    if (count == 500) chunk.after = chunk.before;
    const ChunkLayout layout = OneTensor(Dtype::kBf16, chunk.before).layout();
    ScanChunk(layout, 0, chunk.before, chunk.after, request, &scan);
    const ChunkScan fresh = Scan(layout, 0, chunk.before, chunk.after, request);
    EXPECT_EQ(scan.changed, fresh.changed);
    EXPECT_EQ(scan.pieces.size(), 1U);
    EXPECT_EQ(scan.pieces[0].new_leaves, fresh.pieces[0].new_leaves);
    ExpectEvents(scan, fresh.events);
  }
}

TEST_F(ChunkScanTest, WhatIsNotWantedStaysEmpty) {
  const SparseChunk chunk = RandomChunk({Dtype::kBf16}, 3000, 0.1, &random_);
  const ChunkLayout layout = OneTensor(Dtype::kBf16, chunk.before).layout();
  ScanRequest request;
  request.digests = false;
  const ChunkScan scan = Scan(layout, 0, chunk.before, chunk.after, request);
  EXPECT_EQ(scan.changed, chunk.Positions().size());
  EXPECT_TRUE(scan.events.gaps.empty());
  EXPECT_TRUE(scan.pieces[0].old_leaves.empty());
  EXPECT_EQ(scan.pieces[0].sum_change, 0U);
}

TEST_F(ChunkScanTest, EqualChunksHaveNoChanges) {
  const ByteVector bytes = RandomChunk({Dtype::kBf16}, 3000, 0, &random_).before;
  const ClassRule rule({}, {});
  const ChunkScan scan = Scan(OneTensor(Dtype::kBf16, bytes).layout(), 0, bytes, bytes,
                              {true, &rule, Elements::kUnits});
  EXPECT_EQ(scan.changed, 0U);
  EXPECT_TRUE(scan.events.gaps.empty());
}

}  // namespace
}  // namespace isthmus::codec
