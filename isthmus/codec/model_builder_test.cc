#include "isthmus/codec/model_builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace isthmus::codec {
namespace {

class ModelBuilderTest : public ::testing::Test {
 protected:
  ModelBuilderTest()
      : seed_(std::random_device()()), trace_(__FILE__, __LINE__, seed_), random_(seed_) {}

  uint32_t Geometric(double probability) {
    return std::geometric_distribution<uint32_t>(probability)(random_);
  }

  unsigned seed_;
  ::testing::ScopedTrace trace_;
  std::mt19937 random_;
};

void Add(uint8_t c, uint32_t gap, PackedStep step, SparseEvents* events) {
  events->classes.push_back(c);
  events->gaps.push_back(gap);
  events->steps.push_back(step);
}

Model Build(size_t classes, const SparseEvents& events) {
  std::vector<uint8_t> thresholds;
  for (size_t c = 1; c < classes; ++c) thresholds.push_back(static_cast<uint8_t>(c));
  ModelBuilder builder(Elements::kUnits, thresholds);
  builder.Add(events);
  return builder.Build();
}

// Whether the table has every symbol that the gap is coded with.
void ExpectGapIsCoded(const GapCounts& table, uint32_t gap) {
  ASSERT_GT(table.counts[kGapEnd], 0U);
  if (table.skip_length != 0) {
    ASSERT_GT(table.counts[kGapSkip], 0U);
    gap %= table.skip_length;
  }
  ASSERT_GT(table.counts[BucketOf<kGapM>(gap).bucket], 0U) << gap;
}

void ExpectAllIsCoded(const Model& model, const SparseEvents& events) {
  for (size_t i = 0; i < events.gaps.size(); ++i) {
    const Model::Class& entry = model.classes.at(events.classes[i]);
    GapCounts gaps;
    ASSERT_TRUE(ExpandGapTable(entry.gap, &gaps));
    ExpectGapIsCoded(gaps, events.gaps[i]);
    const SymbolCounts steps = ExpandStepTable(model.step_tables.at(entry.step_table));
    ASSERT_GT(steps[BucketOf<kStepM>(events.steps[i] >> 1).bucket], 0U) << events.steps[i];
  }
}

void ExpectValid(const Model& model) {
  ByteWriter out;
  model.Write(&out);
  ByteReader in(out.bytes());
  EXPECT_EQ(Model::Read(&in), model);
  in.ExpectEnd();
}

TEST_F(ModelBuilderTest, EverySymbolThatWasAddedIsCoded) {
  for (int round = 0; round < 200; ++round) {
    const size_t classes = 1 + random_() % 16;
    SparseEvents events;
    for (size_t i = random_() % 300 + 1; i > 0; --i) {
      const auto gap = static_cast<uint32_t>(random_()) % kMaxChunkElements;
      const auto step = static_cast<uint32_t>(random_());
      Add(static_cast<uint8_t>(random_() % classes), gap >> (random_() % 24),
          step >> (random_() % 32), &events);
    }
    const Model model = Build(classes, events);
    ExpectValid(model);
    ExpectAllIsCoded(model, events);
  }
}

TEST_F(ModelBuilderTest, ChunksThatShareAModelAreAllCoded) {
  std::vector<SparseEvents> chunks(5);
  ModelBuilder builder(Elements::kUnits, {1});
  for (size_t i = 0; i < chunks.size(); ++i) {
    for (size_t n = 0; n < 10; ++n) {
      Add(n % 2, static_cast<uint32_t>(n << i), static_cast<uint32_t>(n << 3 * i), &chunks[i]);
    }
    builder.Add(chunks[i]);
  }
  const Model model = builder.Build();
  ExpectValid(model);
  for (const SparseEvents& events : chunks) ExpectAllIsCoded(model, events);
}

TEST_F(ModelBuilderTest, MemorylessGapsGetAGeometricTable) {
  for (const double probability : {0.5, 0.1, 0.01, 0.001}) {
    SparseEvents events;
    for (int i = 0; i < 1000; ++i) Add(0, Geometric(probability), 0, &events);
    const GapTable table = Build(1, events).classes[0].gap;
    EXPECT_EQ(table.kind, GapKind::kGeometric) << probability;
    EXPECT_NEAR(table.a, -8 * std::log2(probability), 3);
    EXPECT_NEAR(table.e, 8 * std::log2(1001), 1);
  }
}

TEST_F(ModelBuilderTest, RegularGapsGetAnExplicitTable) {
  SparseEvents events;
  for (int i = 0; i < 2000; ++i) Add(0, i % 2 == 0 ? 1 : 4000, 0, &events);
  EXPECT_EQ(Build(1, events).classes[0].gap.kind, GapKind::kExplicit);
}

TEST_F(ModelBuilderTest, WhereEverythingChangesThereAreOnlyGapsOfZero) {
  SparseEvents events;
  for (int i = 0; i < 100000; ++i) Add(0, 0, 0, &events);
  GapCounts counts;
  ASSERT_TRUE(ExpandGapTable(Build(1, events).classes[0].gap, &counts));
  EXPECT_GE(counts.counts[0], 510U);
}

TEST_F(ModelBuilderTest, AClassWithoutChangesOnlyEnds) {
  SparseEvents events;
  Add(1, 5, 0, &events);
  const Model model = Build(3, events);
  for (const size_t c : {0, 2}) {
    GapCounts counts;
    ASSERT_TRUE(ExpandGapTable(model.classes[c].gap, &counts));
    EXPECT_EQ(counts.counts[kGapEnd], kTansStates);
  }
  ExpectValid(model);
}

TEST_F(ModelBuilderTest, WithoutAnyChangeTheModelIsStillValid) {
  ExpectValid(ModelBuilder(Elements::kCodes4, {3, 9}).Build());
}

TEST_F(ModelBuilderTest, ClassesWithEqualStepsShareATable) {
  SparseEvents events;
  for (int i = 0; i < 8000; ++i) {
    const auto c = static_cast<uint8_t>(i % 8);
    Add(c, Geometric(0.05), c < 4 ? 1 : 200 + static_cast<uint32_t>(random_() % 50), &events);
  }
  const Model model = Build(8, events);
  EXPECT_EQ(model.step_tables.size(), 2U);
  for (size_t c = 0; c < 8; ++c) {
    EXPECT_EQ(model.classes[c].step_table, model.classes[c < 4 ? 0 : 7].step_table);
  }
}

TEST_F(ModelBuilderTest, StepTablesStayFew) {
  SparseEvents events;
  for (uint32_t i = 0; i < 16000; ++i) {
    Add(static_cast<uint8_t>(i % 16), Geometric(0.05), 2 << (i % 16), &events);
  }
  EXPECT_LE(Build(16, events).step_tables.size(), 4U);
}

}  // namespace
}  // namespace isthmus::codec
