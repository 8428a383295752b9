#include "isthmus/codec/model.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tests/support/errors.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::ExpectError;

BucketCounts RandomCounts(size_t buckets, uint32_t total, std::mt19937* random) {
  std::vector<uint64_t> weights(buckets);
  for (uint64_t& weight : weights) weight = (*random)() % 3 == 0 ? 0 : 1 + (*random)() % 1000;
  weights.back() = 1 + (*random)() % 1000;
  BucketCounts counts(buckets);
  NormalizeCounts(weights, total, counts);
  return counts;
}

GapTable RandomGapTable(std::mt19937* random) {
  GapTable table;
  if ((*random)() % 2 == 0) {
    table.a = static_cast<uint8_t>((*random)() % 120);
    table.e = static_cast<uint8_t>((*random)() % 40 + 20);
    return table;
  }
  table.kind = GapKind::kExplicit;
  table.end = static_cast<uint16_t>(1 + (*random)() % 400);
  table.buckets = RandomCounts(1 + (*random)() % kMaxGapBuckets, kTansStates - table.end, random);
  return table;
}

Model RandomModel(std::mt19937* random) {
  Model model;
  model.elements = static_cast<Elements>((*random)() % 2);
  const size_t classes = 1 + (*random)() % kMaxClasses;
  for (size_t c = 1; c < classes; ++c) {
    model.thresholds.push_back(static_cast<uint8_t>(c * 15 + (*random)() % 15));
  }
  model.step_tables.resize(1 + (*random)() % kMaxStepTables);
  for (BucketCounts& table : model.step_tables) {
    table = RandomCounts(1 + (*random)() % kMaxStepBuckets, kTansStates, random);
  }
  for (size_t c = 0; c < classes; ++c) {
    const auto table = static_cast<uint8_t>((*random)() % model.step_tables.size());
    model.classes.push_back({table, RandomGapTable(random)});
  }
  return model;
}

ByteVector Written(const Model& model) {
  ByteWriter out;
  model.Write(&out);
  return out.Release();
}

Model ReadBack(ByteSpan bytes) {
  ByteReader in(bytes);
  Model model = Model::Read(&in);
  in.ExpectEnd();
  return model;
}

TEST(ModelTest, WhatIsWrittenIsReadBack) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 300; ++i) {
    const Model model = RandomModel(&random);
    ASSERT_EQ(ReadBack(Written(model)), model);
  }
}

TEST(ModelTest, EveryTruncationIsRefused) {
  std::mt19937 random(1);
  for (int i = 0; i < 10; ++i) {
    const ByteVector bytes = Written(RandomModel(&random));
    for (size_t size = 0; size < bytes.size(); ++size) {
      ExpectError(ErrorCode::kCorrupt, [&] { ReadBack(ByteSpan(bytes).first(size)); });
    }
  }
}

// Two classes, one geometric and one explicit gap table, one step table.
Model ValidModel() {
  Model model;
  model.thresholds = {100};
  model.step_tables = {{300, 0, 212}};
  model.classes = {{0, {GapKind::kGeometric, 40, 40, 0, {}}},
                   {0, {GapKind::kExplicit, 0, 0, 12, {200, 0, 300}}}};
  return model;
}

// A valid model with one thing wrong.
void ExpectRefused(const char* what, const std::function<void(Model*)>& spoil) {
  SCOPED_TRACE(what);
  Model model = ValidModel();
  spoil(&model);
  ExpectError(
      ErrorCode::kCorrupt, [&] { ReadBack(Written(model)); }, "read model");
}

TEST(ModelTest, WhatTheRefusalsAreMadeFromIsValid) {
  EXPECT_EQ(ReadBack(Written(ValidModel())), ValidModel());
}

// docs/patch-format.md, 3.4.
TEST(ModelTest, NumbersOutsideTheirRangesAreRefused) {
  ExpectRefused("elements", [](Model* m) { m->elements = static_cast<Elements>(2); });
  ExpectRefused("no class", [](Model* m) {
    m->classes.clear();
    m->thresholds.clear();
  });
  ExpectRefused("17 classes", [](Model* m) {
    m->classes.resize(17, m->classes[0]);
    m->thresholds.clear();
    for (uint8_t t = 1; t < 17; ++t) m->thresholds.push_back(t);
  });
  ExpectRefused("no step table", [](Model* m) { m->step_tables.clear(); });
  ExpectRefused("17 step tables", [](Model* m) { m->step_tables.resize(17, m->step_tables[0]); });
  ExpectRefused("a step table that is not there", [](Model* m) { m->classes[1].step_table = 1; });
  ExpectRefused("kind", [](Model* m) { m->classes[0].gap.kind = static_cast<GapKind>(2); });
}

TEST(ModelTest, ThresholdsThatDoNotAscendFromOneAreRefused) {
  ExpectRefused("0", [](Model* m) { m->thresholds = {0}; });
  ExpectRefused("equal", [](Model* m) {
    m->classes.push_back(m->classes[0]);
    m->thresholds = {100, 100};
  });
  ExpectRefused("descending", [](Model* m) {
    m->classes.push_back(m->classes[0]);
    m->thresholds = {100, 99};
  });
}

TEST(ModelTest, StepTablesThatBreakARuleAreRefused) {
  const auto with = [](const BucketCounts& table) {
    return [table](Model* m) { m->step_tables = {table}; };
  };
  ExpectRefused("no counts", with({}));
  BucketCounts long_table(121, 0);
  long_table[120] = 512;
  ExpectRefused("121 counts", with(long_table));
  ExpectRefused("last is 0", with({512, 0}));
  ExpectRefused("511", with({300, 211}));
  ExpectRefused("513", with({300, 213}));
  ExpectRefused("a count of 513", with({513}));
  ExpectRefused("a sum that fits modulo 2^16", with({512, 512, 65024}));
}

TEST(ModelTest, TheLongestStepTableIsAllowed) {
  Model model = ValidModel();
  model.step_tables[0].assign(120, 4);
  model.step_tables[0][0] = 512 - 119 * 4;
  EXPECT_EQ(ReadBack(Written(model)), model);
}

TEST(ModelTest, ExplicitGapTablesThatBreakARuleAreRefused) {
  const auto with = [](uint16_t end, const BucketCounts& buckets) {
    return [end, buckets](Model* m) {
      m->classes[1].gap.end = end;
      m->classes[1].gap.buckets = buckets;
    };
  };
  ExpectRefused("END of 0", with(0, {512}));
  ExpectRefused("END of 512", with(512, {1}));
  ExpectRefused("no counts", with(511, {}));
  ExpectRefused("511", with(11, {500}));
  ExpectRefused("513", with(13, {500}));
  ExpectRefused("last is 0", with(12, {500, 0}));
  BucketCounts long_table(47, 10);
  ExpectRefused("47 counts", with(512 - 470, long_table));
}

TEST(ModelTest, CountsMustBeInTheirShortestForm) {
  ByteVector bytes = Written(ValidModel());
  // The step table's counts: 3, then 300 in two bytes, 0, 212 in two bytes.
  const size_t zero = 4 + 1 + 2;
  ASSERT_EQ(bytes[zero], std::byte{0});
  bytes[zero] = std::byte{0x80};
  bytes.insert(bytes.begin() + zero + 1, std::byte{0});
  ExpectError(ErrorCode::kCorrupt, [&] { ReadBack(bytes); });
}

// Counts of a geometric table: buckets 0 to B - 1, SKIP and END, each at least 1.
void ExpectWholeTable(const GapCounts& expanded) {
  uint32_t buckets = 0;
  while (expanded.counts[buckets] > 0) ++buckets;
  uint32_t sum = 0;
  for (uint32_t symbol = 0; symbol < kMaxSymbols; ++symbol) {
    const bool used = symbol < buckets || symbol == kGapSkip || symbol == kGapEnd;
    ASSERT_EQ(expanded.counts[symbol] > 0, used) << symbol;
    sum += expanded.counts[symbol];
  }
  ASSERT_EQ(sum, kTansStates);
  ASSERT_GE(buckets, 1U);
  ASSERT_LE(buckets, kMaxGapBuckets);
  ASSERT_EQ(expanded.skip_length, BucketStart<kGapM>(buckets));
}

void ExpectExpandsOrIsRefused(uint8_t a, uint8_t e, uint32_t* refused) {
  GapCounts expanded;
  Model model = ValidModel();
  model.classes[0].gap.a = a;
  model.classes[0].gap.e = e;
  if (!ExpandGapTable(model.classes[0].gap, &expanded)) {
    ++*refused;
    ExpectError(
        ErrorCode::kCorrupt, [&] { ReadBack(Written(model)); }, "more symbols than states");
    return;
  }
  ASSERT_EQ(ReadBack(Written(model)), model);
  const uint64_t end = std::max<uint64_t>(1, (512 * EighthPower(e)) >> 32);
  ASSERT_EQ(expanded.counts[kGapEnd], end);
  if (end == kTansStates) {
    ASSERT_EQ(expanded.skip_length, 0U);
  } else {
    ExpectWholeTable(expanded);
  }
}

TEST(ModelTest, EveryGeometricTableIsWholeOrRefused) {
  uint32_t refused = 0;
  for (uint32_t a = 0; a < 256; ++a) {
    for (uint32_t e = 0; e < 256; ++e) {
      SCOPED_TRACE(::testing::Message() << "a " << a << " e " << e);
      ExpectExpandsOrIsRefused(static_cast<uint8_t>(a), static_cast<uint8_t>(e), &refused);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_LT(refused, 65536U / 20);  // where END leaves few states, for many buckets
}

TEST(ModelTest, GeometricTablesFollowTheDistribution) {
  // Half of the elements change: a gap of 0 has one half, of 1 a quarter, of 2 or 3 3/16.
  GapCounts expanded;
  ASSERT_TRUE(ExpandGapTable({GapKind::kGeometric, 8, 72, 0, {}}, &expanded));
  EXPECT_EQ(expanded.counts[kGapEnd], 1);
  EXPECT_NEAR(expanded.counts[0], 256, 2);
  EXPECT_NEAR(expanded.counts[1], 128, 1);
  EXPECT_NEAR(expanded.counts[2], 64, 1);  // a gap of 2
  EXPECT_NEAR(expanded.counts[3], 32, 1);
}

TEST(ModelTest, EighthPowersHalveEveryEightSteps) {
  EXPECT_EQ(EighthPower(0), uint64_t{1} << 32);
  for (uint32_t i = 0; i < 248; ++i) EXPECT_EQ(EighthPower(i + 8), EighthPower(i) / 2);
  for (uint32_t i = 0; i < 200; ++i) EXPECT_LT(EighthPower(i + 1), EighthPower(i));
}

}  // namespace
}  // namespace isthmus::codec
