#include "isthmus/codec/sparse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "tests/support/guarded_bytes.h"
#include "tests/support/old_units.h"
#include "tests/support/simd.h"
#include "tests/support/sparse_chunk.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::ActivityOf;
using ::isthmus::testing::CountChanged;
using ::isthmus::testing::ElementKind;
using ::isthmus::testing::ElementsOf;
using ::isthmus::testing::EncodeChunk;
using ::isthmus::testing::EventsOf;
using ::isthmus::testing::GuardedBytes;
using ::isthmus::testing::kEveryWidth;
using ::isthmus::testing::OnEveryTarget;
using ::isthmus::testing::RandomChunk;
using ::isthmus::testing::SetElement;
using ::isthmus::testing::SparseChunk;
using ::isthmus::testing::SparsePayload;
using ::isthmus::testing::TakeBack;

constexpr double kShares[] = {0, 0.001, 0.01, 0.1, 0.5, 1};

// `count` ascending ones among the keys that elements of this width have; half of the time close to
// each other, which a target may treat in a way of its own.
std::vector<uint8_t> RandomThresholds(const ElementKind& kind, size_t count, std::mt19937* random) {
  const size_t keys = kind.bits() == 4 ? 16 : 256;
  std::vector<uint8_t> all(keys - 1);
  std::iota(all.begin(), all.end(), uint8_t{1});
  if (keys == 256 && (*random)() % 2 == 0) {
    all.erase(all.begin(), all.begin() + 40 + (*random)() % 100);
    all.resize(50);
  }
  std::vector<uint8_t> thresholds;
  std::ranges::sample(all, std::back_inserter(thresholds), static_cast<std::ptrdiff_t>(count),
                      *random);
  return thresholds;
}

// A chunk, how it is coded, and its payload.
struct Case {
  SparseChunk chunk;
  std::vector<uint8_t> thresholds;
  std::optional<Activity> activity;
  SparsePayload encoded;
};

Case RandomCase(const ElementKind& kind, size_t count, double share, size_t classes, bool bitmap,
                std::mt19937* random) {
  Case made = {RandomChunk(kind, count, share, random),
               RandomThresholds(kind, classes - 1, random),
               std::nullopt,
               {}};
  if (bitmap) {
    const auto drawn = static_cast<uint32_t>((*random)());
    made.activity = ActivityOf(made.chunk, 9 + drawn % 4, drawn / 4 % 6);
  }
  made.encoded = EncodeChunk(made.chunk, made.thresholds, made.activity);
  return made;
}

std::string Describe(const Case& c) {
  return std::to_string(c.chunk.kind.bits()) + " bits, " + std::to_string(c.chunk.count()) +
         " elements, " + std::to_string(c.thresholds.size() + 1) + " classes" +
         (c.activity ? ", bitmap" : "");
}

// A copy that begins `shift` bytes behind an aligned address.
class ShiftedBytes {
 public:
  ShiftedBytes(const ByteVector& bytes, size_t shift) : memory_(shift + bytes.size()) {
    span_ = MutableByteSpan(memory_).subspan(shift);
    std::ranges::copy(bytes, span_.begin());
  }
  MutableByteSpan span() const { return span_; }

 private:
  ByteVector memory_;
  MutableByteSpan span_;
};

// Each change is listed once, in rising blocks.
void ExpectOld(const Case& c, const OldUnits& old) {
  const size_t unit_bytes = tensor::UnitBytes(c.chunk.kind.dtype);
  ASSERT_EQ(TakeBack(c.chunk.after, old, unit_bytes), c.chunk.before) << Describe(c);
  ASSERT_EQ(old.list().size(), CountChanged(c.chunk.before, c.chunk.after, unit_bytes));
  ASSERT_TRUE(std::ranges::is_sorted(
      old.list(), {}, [](const OldUnit& unit) { return unit.position / kBlockElements; }));
}

// The target in use makes the same payload, and the new bytes of it.
void ExpectSameAt(const Case& c, size_t shift) {
  const ShiftedBytes before(ElementsOf(c.chunk.kind, c.chunk.before), shift);
  const ShiftedBytes after(ElementsOf(c.chunk.kind, c.chunk.after), shift);
  const SparseEvents events =
      EventsOf(c.chunk, before.span(), after.span(), c.thresholds, c.activity);
  ByteVector payload;
  EncodeSparse(events, c.encoded.model, c.chunk.count(), &payload);
  ASSERT_EQ(payload, c.encoded.payload) << Describe(c);

  const ShiftedBytes units(c.chunk.before, shift);
  OldUnits old;
  ApplySparse(payload, c.encoded.model, c.chunk.kind.dtype, units.span(), &old);
  ASSERT_TRUE(std::ranges::equal(units.span(), c.chunk.after)) << Describe(c);
  ExpectOld(c, old);
}

void ExpectSameOnEveryTarget(const std::vector<Case>& cases) {
  OnEveryTarget([&cases] {
    for (const Case& c : cases) {
      for (const size_t shift : {0, 1}) ExpectSameAt(c, shift);
    }
  });
}

class SparseTest : public ::testing::Test {
 protected:
  SparseTest() : seed_(std::random_device()()), trace_(__FILE__, __LINE__, seed_), random_(seed_) {}

  unsigned seed_;
  ::testing::ScopedTrace trace_;
  std::mt19937 random_;
};

TEST_F(SparseTest, EveryWidthLengthAndDensityComesBackOnEveryTarget) {
  std::vector<Case> cases;
  for (const ElementKind& kind : kEveryWidth) {
    for (const size_t count : {1, 63, 64, 65, 4095, 4096, 4097, 10000}) {
      const size_t elements = kind.bits() == 4 ? 2 * count : count;
      for (const double share : kShares) {
        for (const bool bitmap : {false, true}) {
          const size_t classes = 1 + random_() % kMaxClasses;
          cases.push_back(RandomCase(kind, elements, share, classes, bitmap, &random_));
        }
      }
    }
  }
  ExpectSameOnEveryTarget(cases);
}

TEST_F(SparseTest, EveryNumberOfClassesComesBackOnEveryTarget) {
  std::vector<Case> cases;
  for (const ElementKind& kind : kEveryWidth) {
    for (size_t classes = 1; classes <= kMaxClasses; ++classes) {
      for (const bool bitmap : {false, true}) {
        cases.push_back(RandomCase(kind, 9000, 0.03, classes, bitmap, &random_));
      }
    }
  }
  ExpectSameOnEveryTarget(cases);
}

TEST_F(SparseTest, FullChunksComeBackOnEveryTarget) {
  std::vector<Case> cases;
  cases.push_back(RandomCase({tensor::Dtype::kBf16}, kChunkUnits, 0.01, 8, false, &random_));
  cases.push_back(RandomCase({tensor::Dtype::kF32}, kChunkUnits, 0, 5, false, &random_));
  cases.push_back(RandomCase({tensor::Dtype::kF8E4M3}, kChunkUnits, 0, 1, true, &random_));
  // 2^20 units of 4 bytes as 4-bit codes: the most elements that a chunk can have.
  cases.push_back(RandomCase({tensor::Dtype::kI32, Elements::kCodes4}, kMaxChunkElements, 0.001, 4,
                             false, &random_));
  OnEveryTarget([&cases] {
    for (const Case& c : cases) ExpectSameAt(c, 1);
  });
}

TEST_F(SparseTest, GapsAsLongAsAChunkComeBack) {
  for (const uint32_t position : {uint32_t{0}, kMaxChunkElements / 2, kMaxChunkElements - 1}) {
    SparseChunk chunk = {{tensor::Dtype::kU32, Elements::kCodes4},
                         ByteVector(kMaxChunkElements / 2),
                         ByteVector(kMaxChunkElements / 2)};
    SetElement(chunk.after, 4, position, 9);
    SetElement(chunk.after, 4, kMaxChunkElements - 1, 7);
    const SparsePayload encoded = EncodeChunk(chunk, {1});
    EXPECT_LT(encoded.payload.size(), 20U);
    ApplySparse(encoded.payload, encoded.model, chunk.kind.dtype, chunk.before);
    EXPECT_EQ(chunk.before, chunk.after);
  }
}

// Zeros, ones of either sign, infinities, NaN with payloads, the ends of the order.
std::vector<uint32_t> Extremes(uint32_t bits) {
  switch (bits) {
    case 4:
      return {0, 1, 6, 7, 8, 9, 14, 15};
    case 8:
      return {0, 1, 0x38, 0x7E, 0x7F, 0x80, 0x81, 0xB8, 0xFE, 0xFF};
    case 16:
      return {0,      1,      0x3F80, 0x7F80, 0x7F81, 0x7FC0, 0x7FFF,
              0x8000, 0x8001, 0xBF80, 0xFF80, 0xFFC1, 0xFFFF};
    default:
      return {0,           1,           0x3F80'0000, 0x7F80'0000, 0x7FC0'1234, 0x7FFF'FFFF,
              0x8000'0000, 0x8000'0001, 0xBF80'0000, 0xFF80'0000, 0xFFFF'FFFF};
  }
}

TEST_F(SparseTest, ExtremeValuesTurnIntoEachOther) {
  std::vector<Case> cases;
  for (const ElementKind& kind : kEveryWidth) {
    const std::vector<uint32_t> values = Extremes(kind.bits());
    const size_t count = (values.size() * values.size() + 1) / 2 * 2;
    Case c = {{kind, ByteVector(kind.BytesOf(count)), ByteVector(kind.BytesOf(count))}, {}, {}, {}};
    for (size_t i = 0; i < values.size() * values.size(); ++i) {
      SetElement(c.chunk.before, kind.bits(), i, values[i / values.size()]);
      SetElement(c.chunk.after, kind.bits(), i, values[i % values.size()]);
    }
    for (const std::vector<uint8_t>& thresholds : {std::vector<uint8_t>{}, {3, 7}}) {
      c.thresholds = thresholds;
      c.encoded = EncodeChunk(c.chunk, thresholds);
      cases.push_back(c);
    }
  }
  ExpectSameOnEveryTarget(cases);
}

// The kernels read and write nothing beyond the chunk, at either end.
TEST_F(SparseTest, TheChunkIsAllThatIsTouched) {
  std::vector<Case> cases;
  for (const ElementKind& kind : kEveryWidth) {
    for (const size_t count : {2, 62, 64, 66, 1000, 4094, 4096, 4098, 8192}) {
      for (const size_t classes : {1, 6, 12}) {
        cases.push_back(RandomCase(kind, count, 0.1, classes, count % 64 == 0, &random_));
      }
    }
  }
  OnEveryTarget([&cases] {
    for (const Case& c : cases) {
      for (const auto guard : {GuardedBytes::Guard::kBefore, GuardedBytes::Guard::kBehind}) {
        const GuardedBytes before(ElementsOf(c.chunk.kind, c.chunk.before), guard);
        const GuardedBytes after(ElementsOf(c.chunk.kind, c.chunk.after), guard);
        const SparseEvents events =
            EventsOf(c.chunk, before.span(), after.span(), c.thresholds, c.activity);
        ByteVector payload;
        EncodeSparse(events, c.encoded.model, c.chunk.count(), &payload);
        const GuardedBytes units(c.chunk.before, guard);
        const GuardedBytes guarded_payload(payload, guard);
        ApplySparse(guarded_payload.span(), c.encoded.model, c.chunk.kind.dtype, units.span());
        ASSERT_TRUE(std::ranges::equal(units.span(), c.chunk.after)) << Describe(c);
      }
    }
  });
}

TEST_F(SparseTest, ABitmapTakesIdleElementsOutOfTheGaps) {
  SparseChunk chunk = {{tensor::Dtype::kBf16}, ByteVector(2 * 8192), ByteVector(2 * 8192)};
  for (const size_t position : {5, 600, 4100}) SetElement(chunk.after, 16, position, 1);
  EXPECT_EQ(EventsOf(chunk, {}).gaps, (std::vector<uint32_t>{5, 594, 3499}));
  // Granules of 512: numbers 0, 1 and 8 are active.
  EXPECT_EQ(EventsOf(chunk, {}, ActivityOf(chunk, 9, 0)).gaps,
            (std::vector<uint32_t>{5, 594, 427}));
}

TEST_F(SparseTest, ChangesComeBlockByBlockAndInItClassByClass) {
  SparseChunk chunk = {{tensor::Dtype::kI8}, ByteVector(5000), ByteVector(5000)};
  for (size_t i = 1; i < 5000; i += 2) chunk.before[i] = std::byte{200};
  chunk.after = chunk.before;
  for (const size_t position : {1, 2, 7, 4094, 4097}) chunk.after[position] ^= std::byte{1};
  const SparseEvents events = EventsOf(chunk, {100});
  EXPECT_EQ(events.classes, (std::vector<uint8_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ(events.gaps, (std::vector<uint32_t>{1, 2045, 0, 2, 2044}));
}

TEST_F(SparseTest, AChunkMayBePutInOrderPieceByPiece) {
  const SparseChunk chunk = RandomChunk({tensor::Dtype::kBf16}, 50000, 0.05, &random_);
  const std::vector<uint32_t> positions = chunk.Positions();
  for (const size_t classes : {1, 5, 13}) {
    const std::vector<uint8_t> thresholds = RandomThresholds(chunk.kind, classes - 1, &random_);
    const SparseEvents whole = EventsOf(chunk, thresholds);
    const ClassRule rule(thresholds, KeyRuleOf(Elements::kUnits, chunk.kind.dtype));
    SparseEvents pieces;
    pieces.Resize(positions.size() + kOrderSlack);
    ChangeOrderer orderer(16, rule, nullptr,
                          {pieces.classes.data(), pieces.gaps.data(), pieces.steps.data()});
    std::span<const uint32_t> left = positions;
    for (size_t at = 0; at < chunk.count(); at += 3 * kBlockElements) {
      const size_t end = std::min(at + 3 * kBlockElements, chunk.count());
      const auto inside = static_cast<size_t>(std::ranges::lower_bound(left, end) - left.begin());
      orderer.Order(chunk.before, chunk.after, at, end, left.first(inside));
      left = left.subspan(inside);
    }
    pieces.Resize(positions.size());
    EXPECT_EQ(pieces.classes, whole.classes);
    EXPECT_EQ(pieces.gaps, whole.gaps);
    EXPECT_EQ(pieces.steps, whole.steps);
  }
}

TEST_F(SparseTest, CodesAreUnpackedLowHalfFirstAndPackedAgain) {
  const ByteVector packed = {std::byte{0x21}, std::byte{0xF0}};
  ByteVector codes(4);
  UnpackCodes(packed, codes);
  EXPECT_EQ(codes, (ByteVector{std::byte{1}, std::byte{2}, std::byte{0}, std::byte{15}}));
  ByteVector again(2);
  PackCodes(codes, again);
  EXPECT_EQ(again, packed);
}

TEST_F(SparseTest, KeysFallIntoTheClassOfTheLastThresholdAtMost) {
  const ClassRule rule({1, 100, 255}, {});
  EXPECT_EQ(rule.class_count, 4U);
  const std::vector<std::pair<size_t, int>> expected = {{0, 0},   {1, 1},   {99, 1},
                                                        {100, 2}, {254, 2}, {255, 3}};
  for (const auto& [key, c] : expected) EXPECT_EQ(rule.class_of_key[key], c) << key;
}

}  // namespace
}  // namespace isthmus::codec
