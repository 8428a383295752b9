#include "isthmus/codec/decode_tables.h"

#include <gtest/gtest.h>

#include <thread>

namespace isthmus::codec {
namespace {

// Two classes, one of which has SKIP, and two step tables.
Model SomeModel(uint8_t a = 40) {
  Model model;
  model.thresholds = {100};
  model.step_tables = {{512}, {300, 0, 212}};
  model.classes = {{1, {GapKind::kGeometric, a, 40, 0, {}}},
                   {0, {GapKind::kExplicit, 0, 0, 12, {200, 0, 300}}}};
  return model;
}

TEST(DecodeTablesTest, EveryBucketHasItsFirstNumber) {
  const DecodeTables tables((SomeModel()));
  for (uint32_t b = 0; b < kMaxGapBuckets; ++b) {
    EXPECT_EQ(tables.gap_start[b], BucketStart<kGapM>(b));
  }
  for (uint32_t b = 0; b < kMaxStepBuckets; ++b) {
    EXPECT_EQ(tables.step_start[b], BucketStart<kStepM>(b));
  }
}

TEST(DecodeTablesTest, TheEndOfAClassIsBeyondEveryElement) {
  const DecodeTables tables((SomeModel()));
  EXPECT_GE(tables.gap_start[kGapEnd], kNoFurtherGap);
  EXPECT_GT(kNoFurtherGap, 2 * kMaxChunkElements);
}

TEST(DecodeTablesTest, ClassesHaveTheirStepTableAndSkipLength) {
  const Model model = SomeModel();
  const DecodeTables tables(model);
  GapCounts counts;
  ASSERT_TRUE(ExpandGapTable(model.classes[0].gap, &counts));
  EXPECT_EQ(tables.skip_length[0], counts.skip_length);
  EXPECT_GT(tables.skip_length[0], 0U);
  EXPECT_EQ(tables.skip_length[1], 0U);
  EXPECT_EQ(tables.step_table[0], 1U);
  EXPECT_EQ(tables.step_table[1], 0U);
}

TEST(DecodeTablesTest, StatesKnowTheExtraBitsOfTheirSymbol) {
  const DecodeTables tables((SomeModel()));
  uint32_t skips = 0;
  for (const TansEntry entry : tables.gaps[0]) {
    const bool bucket = entry.symbol() < kMaxGapBuckets;
    EXPECT_EQ(entry.extra_bits(), bucket ? BucketExtraBits<kGapM>(entry.symbol()) : 0U);
    if (entry.symbol() == kGapSkip) ++skips;
  }
  EXPECT_GT(skips, 0U);
  for (const TansEntry entry : tables.steps[1]) {  // with the sign
    EXPECT_EQ(entry.extra_bits(), BucketExtraBits<kStepM>(entry.symbol()) + 1);
  }
}

TEST(DecodeTablesTest, TablesAreKeptUntilAThreadAsksForAnotherModel) {
  const Model model = SomeModel();
  const DecodeTables* const first = &TablesFor(model);
  EXPECT_EQ(&TablesFor(SomeModel()), first);
  const uint32_t length = first->skip_length[0];
  std::thread([&model, first] { EXPECT_NE(&TablesFor(model), first); }).join();
  EXPECT_NE(TablesFor(SomeModel(60)).skip_length[0], length);
  EXPECT_EQ(TablesFor(model).skip_length[0], length);
}

}  // namespace
}  // namespace isthmus::codec
