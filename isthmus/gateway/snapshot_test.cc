#include "isthmus/gateway/snapshot.h"

#include <gtest/gtest.h>

namespace isthmus::gateway {
namespace {

// Gateways of different builds must place sessions alike.
TEST(PlacementTest, IsTheSameEverywhere) {
  EXPECT_EQ(PlacementOf(""), 0x2D06800538D394C2);
  EXPECT_NE(PlacementOf("a"), PlacementOf("b"));
}

TEST(IslandStateTest, HasANameForEach) {
  EXPECT_EQ(IslandStateName(IslandState::kReady), "ready");
  EXPECT_EQ(IslandStateName(IslandState::kGone), "gone");
}

}  // namespace
}  // namespace isthmus::gateway
