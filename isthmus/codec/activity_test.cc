#include "isthmus/codec/activity.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/errors.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::ExpectError;

constexpr uint32_t kMaxRiceBits = 15;

uint64_t GranuleCount(uint32_t granule_bits, uint64_t elements) {
  return (elements + (uint64_t{1} << granule_bits) - 1) >> granule_bits;
}

// A bit stream as decoders get it.
struct Stream {
  ByteVector bytes;  // with padding
  uint64_t pad = 0;
  uint64_t end = 0;  // bits

  BitCursor Open() const { return {bytes.data(), pad, end}; }
};

Stream Write(const Activity& activity, uint64_t elements) {
  ByteVector buffer(elements / 128 + 64);
  PrependBits out(buffer);
  PrependActivity(activity, elements, &out);
  const PrependBits::Front front = out.Finish();
  Stream stream;
  stream.bytes.assign(front.begin, buffer.data() + buffer.size());
  stream.pad = front.pad;
  stream.end = 8 * stream.bytes.size();
  stream.bytes.resize(stream.bytes.size() + kStreamPadding);
  return stream;
}

void ExpectReadBack(const Activity& activity, uint64_t elements) {
  const Stream stream = Write(activity, elements);
  BitCursor in = stream.Open();
  const Activity found = ReadActivity(&in, elements);
  ASSERT_EQ(found.granule_bits, activity.granule_bits);
  ASSERT_EQ(found.rice_bits, activity.rice_bits);
  ASSERT_EQ(found.active, activity.active);
  ASSERT_EQ(in.bit, in.end);
}

TEST(ActivityTest, WhatIsWrittenIsReadBack) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const uint64_t elements : {1, 511, 512, 513, 100000, 1 << 20, 1 << 23}) {
    for (uint32_t g = kMinGranuleBits; g <= kMaxGranuleBits; ++g) {
      for (const unsigned one_in : {1U, 2U, 50U, 100000U}) {
        Activity activity = {g, static_cast<uint32_t>(random() % (kMaxRiceBits + 1)), {}};
        for (uint32_t i = 0; i < GranuleCount(g, elements); ++i) {
          if (random() % one_in == 0) activity.active.push_back(i);
        }
        ExpectReadBack(activity, elements);
      }
    }
  }
}

std::vector<uint32_t> Active(const std::vector<uint32_t>& positions, uint32_t granule_bits) {
  std::vector<uint32_t> active;
  for (const uint32_t position : positions) {
    const uint32_t granule = position >> granule_bits;
    if (active.empty() || active.back() != granule) active.push_back(granule);
  }
  return active;
}

TEST(ActivityTest, ChangesInFewRowsGetABitmapOfThese) {
  // 1000 rows of 1024 elements, every tenth of which has changes.
  std::mt19937 random(3);
  std::vector<uint32_t> positions;
  for (uint32_t i = 0; i < 1000 * 1024; ++i) {
    if (i / 1024 % 10 == 0 && random() % 20 == 0) positions.push_back(i);
  }
  const auto activity = ChooseActivity(positions, 1000 * 1024);
  ASSERT_TRUE(activity);
  EXPECT_LE(activity->granule_bits, 10U);
  EXPECT_EQ(activity->active, Active(positions, activity->granule_bits));
  ExpectReadBack(*activity, 1000 * 1024);
}

TEST(ActivityTest, ChangesEverywhereGetNone) {
  std::vector<uint32_t> positions;
  for (uint32_t i = 0; i < 1 << 20; i += 100) positions.push_back(i);
  EXPECT_FALSE(ChooseActivity(positions, 1 << 20));
  EXPECT_FALSE(ChooseActivity(std::vector<uint32_t>{0}, 1));
  // A few scattered changes: the bitmap would cost as much as it saves.
  EXPECT_FALSE(ChooseActivity(std::vector<uint32_t>{100, 500000, 900000}, 1 << 20));
}

TEST(ActivityTest, WordBitsAreThoseOfActiveGranules) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const uint64_t elements : {1, 64, 65, 4096, 4097, 30000}) {
    for (uint32_t g = kMinGranuleBits; g <= kMaxGranuleBits; ++g) {
      Activity activity = {g, 0, {}};
      std::vector<bool> active(GranuleCount(g, elements));
      for (uint32_t i = 0; i < active.size(); ++i) {
        active[i] = random() % 2 == 0;
        if (active[i]) activity.active.push_back(i);
      }
      const std::vector<uint64_t> words = activity.WordBits(elements);
      ASSERT_EQ(words.size(), (elements + 4095) / 4096);
      for (uint64_t w = 0; w < 64 * words.size(); ++w) {
        const bool expected = w * 64 < elements && active[w * 64 >> g];
        ASSERT_EQ((words[w / 64] >> (w % 64) & 1) != 0, expected) << w;
      }
    }
  }
}

// What is read is well-formed, or kCorrupt is thrown.
void ReadHostile(const Stream& stream, uint64_t elements) {
  BitCursor in = stream.Open();
  try {
    const Activity activity = ReadActivity(&in, elements);
    ASSERT_FALSE(in.Past());
    ASSERT_LE(activity.granule_bits, kMaxGranuleBits);
    uint64_t least = 0;
    for (const uint32_t granule : activity.active) {
      ASSERT_GE(granule, least);
      least = uint64_t{granule} + 1;
    }
    ASSERT_LE(least, GranuleCount(activity.granule_bits, elements));
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kCorrupt);
  }
}

TEST(ActivityTest, EveryTruncationIsRefused) {
  const Activity activity = {9, 2, {0, 1, 17, 100, 101, 194}};
  const Stream whole = Write(activity, 100000);
  for (uint64_t end = whole.pad; end < whole.end; ++end) {
    Stream cut = whole;
    cut.end = end;
    for (uint64_t bit = end; bit < 8 * cut.bytes.size(); ++bit) {
      cut.bytes[bit / 8] &= static_cast<std::byte>(~(1U << bit % 8));
    }
    ExpectError(
        ErrorCode::kCorrupt,
        [&] {
          BitCursor in = cut.Open();
          ReadActivity(&in, 100000);
        },
        "activity bitmap");
  }
}

TEST(ActivityTest, FlippedAndRandomBitsAreRefusedOrWellFormed) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const Stream whole = Write({9, 2, {0, 1, 17, 100, 101, 194}}, 100000);
  for (uint64_t bit = whole.pad; bit < whole.end; ++bit) {
    Stream flipped = whole;
    flipped.bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    ReadHostile(flipped, 100000);
  }
  for (int i = 0; i < 20000; ++i) {
    Stream noise;
    noise.bytes.resize(random() % 40 + kStreamPadding);
    noise.end = 8 * (noise.bytes.size() - kStreamPadding);
    for (size_t b = 0; b < noise.end / 8; ++b) noise.bytes[b] = static_cast<std::byte>(random());
    ReadHostile(noise, 1 + random() % (1 << 23));
  }
}

TEST(ActivityTest, EndlessOnesEndSoon) {
  Stream ones;
  ones.bytes.assign((1 << 16) + kStreamPadding, std::byte{0xFF});
  ones.end = 8 << 16;
  for (const uint64_t elements : {uint64_t{1}, uint64_t{1} << 23}) {
    ExpectError(ErrorCode::kCorrupt, [&] {
      BitCursor in = ones.Open();
      ReadActivity(&in, elements);
    });
  }
}

}  // namespace
}  // namespace isthmus::codec
