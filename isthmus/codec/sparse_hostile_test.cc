// Sparse payloads that no encoder makes: each ends in kCorrupt or in some result inside the chunk.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <thread>

#include "isthmus/codec/sparse.h"
#include "tests/support/errors.h"
#include "tests/support/guarded_bytes.h"
#include "tests/support/simd.h"
#include "tests/support/sparse_chunk.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::ActivityOf;
using ::isthmus::testing::ElementKind;
using ::isthmus::testing::EncodeChunk;
using ::isthmus::testing::ExpectError;
using ::isthmus::testing::GuardedBytes;
using ::isthmus::testing::kEveryWidth;
using ::isthmus::testing::OnEveryTarget;
using ::isthmus::testing::RandomChunk;
using ::isthmus::testing::SparseChunk;
using ::isthmus::testing::SparsePayload;

// A chunk's old bytes with an unreadable page before them, and again with one behind.
class GuardedChunk {
 public:
  GuardedChunk(const ElementKind& kind, const ByteVector& before)
      : kind_(kind),
        before_(before),
        low_(before.size(), GuardedBytes::Guard::kBefore),
        high_(before.size(), GuardedBytes::Guard::kBehind) {}

  // The new bytes, or none if the payload is refused; the same in both places.
  std::optional<ByteVector> Apply(ByteSpan payload, const Model& model) const {
    std::optional<ByteVector> result = ApplyIn(low_, payload, model);
    EXPECT_EQ(ApplyIn(high_, payload, model), result);
    return result;
  }

 private:
  std::optional<ByteVector> ApplyIn(const GuardedBytes& bytes, ByteSpan payload,
                                    const Model& model) const {
    bytes.Set(before_);
    try {
      ApplySparse(payload, model, kind_.dtype, bytes.span());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
      return std::nullopt;
    }
    return ByteVector(bytes.span().begin(), bytes.span().end());
  }

  ElementKind kind_;
  ByteVector before_;
  GuardedBytes low_;
  GuardedBytes high_;
};

// Every target makes the same of a payload.
class Outcomes {
 public:
  void Add(std::optional<ByteVector> outcome) {
    if (!first_done_) {
      outcomes_.push_back(std::move(outcome));
    } else {
      ASSERT_EQ(outcome, outcomes_.at(next_++));
    }
  }
  void EndOfTarget() {
    first_done_ = true;
    next_ = 0;
  }

 private:
  std::vector<std::optional<ByteVector>> outcomes_;
  bool first_done_ = false;
  size_t next_ = 0;
};

// One class; several; several with a bitmap; too many for one vector of classes.
std::vector<SparsePayload> Payloads(const SparseChunk& chunk) {
  return {EncodeChunk(chunk, {}), EncodeChunk(chunk, {2, 5, 100}),
          EncodeChunk(chunk, {2, 5, 100}, ActivityOf(chunk, 9, 1)),
          EncodeChunk(chunk, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})};
}

ByteVector Flipped(const ByteVector& payload, size_t bit) {
  ByteVector flipped = payload;
  flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  return flipped;
}

TEST(SparseHostileTest, EveryFlippedBitIsRefusedOrStaysInTheChunkOnEveryTarget) {
  std::mt19937 random(1);
  for (const ElementKind& kind : kEveryWidth) {
    const SparseChunk chunk = RandomChunk(kind, 5000, 0.01, &random);
    const GuardedChunk guarded(kind, chunk.before);
    for (const SparsePayload& encoded : Payloads(chunk)) {
      Outcomes outcomes;
      OnEveryTarget([&] {
        for (size_t bit = 0; bit < 8 * encoded.payload.size(); bit += 3) {
          outcomes.Add(guarded.Apply(Flipped(encoded.payload, bit), encoded.model));
        }
        outcomes.EndOfTarget();
      });
    }
  }
}

TEST(SparseHostileTest, EveryTruncationAndEveryByteMoreIsRefused) {
  std::mt19937 random(2);
  for (const ElementKind& kind : kEveryWidth) {
    const SparseChunk chunk = RandomChunk(kind, 5000, 0.01, &random);
    const GuardedChunk guarded(kind, chunk.before);
    for (const SparsePayload& encoded : Payloads(chunk)) {
      for (size_t size = 0; size < encoded.payload.size(); ++size) {
        EXPECT_FALSE(guarded.Apply(ByteSpan(encoded.payload).first(size), encoded.model));
      }
      ByteVector longer = encoded.payload;
      longer.push_back(std::byte{0});
      EXPECT_FALSE(guarded.Apply(longer, encoded.model));
    }
  }
}

BucketCounts RandomCounts(size_t buckets, uint32_t total, std::mt19937* random) {
  std::vector<uint64_t> weights(1 + (*random)() % buckets);
  for (uint64_t& weight : weights) weight = (*random)() % 3 == 0 ? 0 : 1 + (*random)() % 100;
  weights.back() = 1;
  BucketCounts counts(weights.size());
  NormalizeCounts(weights, total, counts);
  return counts;
}

// Any model that Model::Read lets through.
Model RandomModel(Elements elements, std::mt19937* random) {
  Model model;
  model.elements = elements;
  const size_t classes = 1 + (*random)() % kMaxClasses;
  for (size_t c = 1; c < classes; ++c) model.thresholds.push_back(static_cast<uint8_t>(c * 15));
  model.step_tables.push_back(RandomCounts(kMaxStepBuckets, kTansStates, random));
  for (size_t c = 0; c < classes; ++c) {
    GapTable gap = {GapKind::kExplicit, 0, 0, static_cast<uint16_t>(1 + (*random)() % 50), {}};
    gap.buckets = RandomCounts(kMaxGapBuckets, kTansStates - gap.end, random);
    const GapTable geometric = {GapKind::kGeometric,
                                static_cast<uint8_t>((*random)() % 80),
                                static_cast<uint8_t>((*random)() % 73),
                                0,
                                {}};
    GapCounts counts;
    if ((*random)() % 2 == 0 && ExpandGapTable(geometric, &counts)) gap = geometric;
    model.classes.push_back({0, gap});
  }
  return model;
}

TEST(SparseHostileTest, AnyModelWithAnyBytesIsRefusedOrStaysInTheChunkOnEveryTarget) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  for (const ElementKind& kind : kEveryWidth) {
    std::mt19937 start(seed);
    const ByteVector before = RandomChunk(kind, 4200, 0, &start).before;
    const GuardedChunk guarded(kind, before);
    Outcomes outcomes;
    OnEveryTarget([&] {
      std::mt19937 random = start;
      for (int i = 0; i < 700; ++i) {
        const Model model = RandomModel(kind.elements, &random);
        ByteVector payload(random() % 100);
        for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
        if (i % 4 != 0 && !payload.empty()) payload[0] = static_cast<std::byte>(random() % 2 * 8);
        outcomes.Add(guarded.Apply(payload, model));
      }
      outcomes.EndOfTarget();
    });
  }
}

// The longest code that there is, for each of 16 classes, at once, where the stream is over:
// nothing may be read so far behind it. In a thread of its own, whose buffers have not grown yet.
TEST(SparseHostileTest, AllGapsBehindTheEndOfTheStreamAreRefused) {
  Model model;
  GapTable gap = {GapKind::kExplicit, 0, 0, kTansStates - 1, BucketCounts(kMaxGapBuckets)};
  gap.buckets.back() = 1;  // nine bits of state, 21 more; state 0 follows state 0
  for (uint8_t c = 0; c < kMaxClasses; ++c) {
    model.classes.push_back({0, gap});
    if (c > 0) model.thresholds.push_back(c);
  }
  model.step_tables = {BucketCounts(kMaxStepBuckets)};
  model.step_tables[0].front() = kTansStates - 1;
  model.step_tables[0].back() = 1;
  std::thread([&model] {
    const ByteVector payload(2);
    ByteVector units(4096);
    ExpectError(ErrorCode::kCorrupt,
                [&] { ApplySparse(payload, model, tensor::Dtype::kF32, units); });
  }).join();
}

// BF16 zeros, and what EncodeSparse makes of events that no change leads to.
class CraftedTest : public ::testing::Test {
 protected:
  void Add(uint32_t gap, PackedStep step) {
    events_.classes.push_back(0);
    events_.gaps.push_back(gap);
    events_.steps.push_back(step);
  }
  void Apply() {
    ModelBuilder builder(Elements::kUnits, {});
    builder.Add(events_);
    const Model model = builder.Build();
    ByteVector payload;
    EncodeSparse(events_, model, kCount, &payload);
    ByteVector units(2 * kCount);
    ApplySparse(payload, model, tensor::Dtype::kBf16, units);
  }
  void ExpectRefused(std::string_view why) {
    ExpectError(
        ErrorCode::kCorrupt, [this] { Apply(); }, std::string(why));
  }

  static constexpr size_t kCount = 5000;
  SparseEvents events_;
};

TEST_F(CraftedTest, ChangesUpToTheLastElementAreAccepted) {
  Add(10, 0);
  Add(kCount - 12, 0);
  EXPECT_NO_THROW(Apply());
}

TEST_F(CraftedTest, AGapBeyondTheLastElementIsRefused) {
  Add(10, 0);
  Add(kCount - 11, 0);
  ExpectRefused("beyond the last element");
}

TEST_F(CraftedTest, AGapFarBeyondIsRefused) {
  Add(kMaxChunkElements - 1, 0);
  ExpectRefused("beyond the last element");
}

TEST_F(CraftedTest, NoChangeAtAllIsRefused) { ExpectRefused("do not end where the stream ends"); }

TEST_F(CraftedTest, TheLargestStepIsOneDownward) {
  Add(3, 0x7FFF << 1 | 1);
  EXPECT_NO_THROW(Apply());
  events_.steps[0] = 0x7FFF << 1;
  ExpectRefused("does not fit an element of 16 bits");
  events_.steps[0] = 0x8000 << 1 | 1;
  ExpectRefused("does not fit an element of 16 bits");
  events_.steps[0] = UINT32_MAX;
  ExpectRefused("does not fit an element of 16 bits");
}

TEST_F(CraftedTest, ChangesInIdleGranulesDoNotExist) {
  events_.activity = Activity{9, 0, {2}};
  Add(511, 0);
  EXPECT_NO_THROW(Apply());
  events_.gaps[0] = 512;
  ExpectRefused("beyond the last element");
  events_.activity->active.clear();
  events_.gaps[0] = 0;
  ExpectRefused("beyond the last element");
}

TEST(SparseHostileTest, TheHeadIsChecked) {
  const SparseChunk chunk = {{tensor::Dtype::kU8}, ByteVector(100), ByteVector(100, std::byte{1})};
  const SparsePayload encoded = EncodeChunk(chunk, {});
  const auto apply = [&](const ByteVector& payload) {
    ByteVector units = chunk.before;
    ApplySparse(payload, encoded.model, tensor::Dtype::kU8, units);
  };
  apply(encoded.payload);
  for (size_t bit = 4; bit < 8; ++bit) {
    ExpectError(
        ErrorCode::kCorrupt, [&] { apply(Flipped(encoded.payload, bit)); }, "head");
  }
  ExpectError(
      ErrorCode::kCorrupt, [&] { apply({}); }, "at least 2 expected");
  ExpectError(
      ErrorCode::kCorrupt,
      [&] {
        apply({std::byte{3}, std::byte{4}});
      },
      "bits before the stream are not zero");
}

}  // namespace
}  // namespace isthmus::codec
