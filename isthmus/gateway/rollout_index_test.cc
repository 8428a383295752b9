#include "isthmus/gateway/rollout_index.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace isthmus::gateway {
namespace {

std::shared_ptr<Segment> Named(std::string stem) {
  auto segment = std::make_shared<Segment>();
  segment->stem = std::move(stem);
  return segment;
}

LinePlace At(std::string_view id, uint64_t offset) { return {HashOfId(id), offset, 10}; }

TEST(RolloutIndex, FindsTheNewestLine) {
  RolloutIndex index(1 << 20);
  const uint32_t a = index.AddSegment(Named("a"));
  index.AddLine(a, At("x", 0));
  index.AddLine(a, At("y", 11));
  const uint32_t b = index.AddSegment(Named("b"));
  index.AddLine(b, At("x", 22));
  EXPECT_EQ(index.Find("x")->segment->stem, "b");
  EXPECT_EQ(index.Find("x")->place.offset, 22U);
  EXPECT_EQ(index.Find("y")->segment->stem, "a");
  EXPECT_EQ(index.Find("y")->place.bytes, 10U);
  EXPECT_FALSE(index.Find("z"));
  EXPECT_EQ(index.ids(), 2U);
  EXPECT_TRUE(index.Trim().empty());
}

TEST(RolloutIndex, ForgetsTheOldestSegments) {
  RolloutIndex index(2 * RolloutIndex::kSegmentBytes + 4 * RolloutIndex::kIdBytes);
  const uint32_t a = index.AddSegment(Named("a"));
  index.AddLine(a, At("x", 0));
  index.AddLine(a, At("y", 1));
  const auto b = Named("b");
  const uint32_t number = index.AddSegment(b);
  index.AddLine(number, At("x", 2));
  index.AddLine(number, At("z", 3));
  EXPECT_TRUE(index.Trim().empty());
  index.AddLine(number, At("w", 4));
  const auto forgotten = index.Trim();
  ASSERT_EQ(forgotten.size(), 1U);
  EXPECT_EQ(forgotten.front()->stem, "a");
  EXPECT_FALSE(index.Knows(*forgotten.front()));
  EXPECT_TRUE(index.Knows(*b));
  // The newer line of an id stays.
  EXPECT_EQ(index.Find("x")->segment, b);
  EXPECT_FALSE(index.Find("y"));
  index.AddLine(a, At("y", 9));
  EXPECT_FALSE(index.Find("y"));
}

TEST(RolloutIndex, ForgetsEvenTheNewest) {
  RolloutIndex index(RolloutIndex::kSegmentBytes);
  for (int round = 0; round < 100; ++round) {
    const uint32_t number = index.AddSegment(Named("a"));
    for (int i = 0; i < 10; ++i) index.AddLine(number, At(fmt::format("{}-{}", round, i), 0));
    EXPECT_EQ(index.Trim().size(), 1U);
    EXPECT_EQ(index.ids(), 0U);
  }
}

}  // namespace
}  // namespace isthmus::gateway
