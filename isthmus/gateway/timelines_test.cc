#include "isthmus/gateway/timelines.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/fleet.h"

namespace isthmus::gateway {
namespace {

namespace json = boost::json;

// The changes of each island, as JSON.
std::map<std::string, std::string> Lines(const Timelines& timelines, uint64_t sequence,
                                         int64_t from_ms) {
  std::map<std::string, std::string> lines;
  const json::value all = json::parse(timelines.ToJson(sequence, from_ms));
  for (const json::value& island : all.as_array()) {
    lines[std::string(island.at("id").as_string())] = json::serialize(island.at("changes"));
  }
  return lines;
}

TEST(TimelinesTest, ChangesOnlyAreKept) {
  Timelines timelines{TimelineLimits{}};
  timelines.Record({MakeIsland("a", 1), MakeIsland("b", 1)}, {1, 1'000});
  timelines.Record({MakeIsland("a", 2), MakeIsland("b", 1)}, {2, 3'000});
  timelines.Record({MakeIsland("a", 2, IslandState::kSuspect), MakeIsland("b", 1)}, {3, 5'000});
  auto lines = Lines(timelines, 0, 0);
  EXPECT_EQ(lines["a"], "[[1000,1],[3000,2],[5000,0]]");
  EXPECT_EQ(lines["b"], "[[1000,1]]");
}

TEST(TimelinesTest, AWindowBeginsWithWhatWasServedThen) {
  Timelines timelines{TimelineLimits{}};
  for (uint64_t i = 1; i <= 5; ++i) {
    timelines.Record({MakeIsland("a", i)}, {i, static_cast<int64_t>(i) * 1'000});
  }
  EXPECT_EQ(Lines(timelines, 0, 3'500)["a"], "[[3000,3],[4000,4],[5000,5]]");
  EXPECT_EQ(Lines(timelines, 4, 0)["a"], "[[5000,5]]");
  EXPECT_TRUE(Lines(timelines, 5, 0).empty());
}

TEST(TimelinesTest, AnIslandThatIsNotListedServesNothing) {
  Timelines timelines{TimelineLimits{.remembered_ms = 10'000}};
  timelines.Record({MakeIsland("a", 1)}, {1, 1'000});
  timelines.Record({}, {2, 3'000});
  EXPECT_EQ(Lines(timelines, 0, 0)["a"], "[[1000,1],[3000,0]]");
  EXPECT_TRUE(Lines(timelines, 0, 4'000).empty());
  timelines.Record({}, {3, 13'000});
  EXPECT_EQ(timelines.size(), 1u);
  timelines.Record({}, {4, 13'001});
  EXPECT_EQ(timelines.size(), 0u);
}

TEST(TimelinesTest, AnotherRunBeginsAnew) {
  Timelines timelines{TimelineLimits{}};
  timelines.Record({MakeIsland("a", 7)}, {1, 1'000});
  timelines.Record({MakeIsland("a", 1, IslandState::kReady, "other")}, {2, 3'000});
  EXPECT_EQ(Lines(timelines, 0, 0)["a"], "[[3000,1]]");
}

TEST(TimelinesTest, ListsAreBoundedEachAndTogether) {
  Timelines timelines{TimelineLimits{.changes = 12, .island_changes = 8}};
  for (uint64_t i = 1; i <= 20; ++i) {
    timelines.Record({MakeIsland("a", i)}, {i, static_cast<int64_t>(i)});
  }
  EXPECT_EQ(Lines(timelines, 0, 0)["a"],
            "[[13,13],[14,14],[15,15],[16,16],[17,17],[18,18],[19,19],[20,20]]");
  timelines.Record({MakeIsland("a", 21), MakeIsland("b", 1), MakeIsland("c", 1)}, {21, 21});
  timelines.Record({MakeIsland("a", 22), MakeIsland("b", 1), MakeIsland("c", 1)}, {22, 22});
  EXPECT_EQ(Lines(timelines, 0, 0)["a"], "[[19,19],[20,20],[21,21],[22,22]]");
}

TEST(TimelinesTest, TheLongestGoneIsForgottenFirst) {
  Timelines timelines{TimelineLimits{.islands = 2}};
  timelines.Record({MakeIsland("a", 1), MakeIsland("b", 1)}, {1, 1});
  timelines.Record({MakeIsland("b", 1)}, {2, 2});
  timelines.Record({MakeIsland("c", 1)}, {3, 3});
  const auto lines = Lines(timelines, 0, 0);
  EXPECT_EQ(timelines.size(), 2u);
  EXPECT_FALSE(lines.contains("a"));
  EXPECT_TRUE(lines.contains("c"));
}

}  // namespace
}  // namespace isthmus::gateway
