#include "isthmus/relay/cache_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "isthmus/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/seed.h"

namespace isthmus::relay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Names = std::vector<std::string>;

Names Add(CacheIndex& index, const std::string& name, uint64_t bytes) {
  Names evicted;
  EXPECT_TRUE(index.Reserve(bytes, &evicted)) << name;
  index.Commit(name, bytes);
  return evicted;
}

TEST(CacheIndexTest, TheLeastRecentlyUsedGoesFirst) {
  CacheIndex index(30);
  EXPECT_THAT(Add(index, "a", 10), IsEmpty());
  EXPECT_THAT(Add(index, "b", 10), IsEmpty());
  EXPECT_THAT(Add(index, "c", 10), IsEmpty());
  index.Pin("a");
  index.Unpin("a");
  EXPECT_THAT(Add(index, "d", 10), ElementsAre("b"));
  EXPECT_THAT(Add(index, "e", 11), ElementsAre("c", "a"));
  EXPECT_THAT(index.names(), ElementsAre("d", "e"));
  EXPECT_EQ(index.used_bytes(), 21u);
  EXPECT_EQ(index.evictions(), 3u);
}

TEST(CacheIndexTest, WhatIsPinnedStays) {
  CacheIndex index(20);
  Add(index, "a", 10);
  Add(index, "b", 10);
  index.Pin("a");
  index.Pin("a");
  EXPECT_THAT(Add(index, "c", 10), ElementsAre("b"));
  index.Unpin("a");
  Names evicted;
  EXPECT_FALSE(index.Reserve(11, &evicted));
  EXPECT_THAT(evicted, IsEmpty());
  EXPECT_THAT(index.names(), ElementsAre("a", "c"));
  index.Unpin("a");
  EXPECT_THAT(Add(index, "d", 20), ElementsAre("a", "c"));
}

TEST(CacheIndexTest, WhatIsBeingWrittenCountsAndCannotGo) {
  CacheIndex index(20);
  Names evicted;
  EXPECT_TRUE(index.Reserve(15, &evicted));
  EXPECT_EQ(index.used_bytes(), 15u);
  EXPECT_FALSE(index.Reserve(6, &evicted));
  index.Release(15);
  EXPECT_TRUE(index.Reserve(20, &evicted));
  EXPECT_FALSE(index.Reserve(1, &evicted));
  EXPECT_TRUE(index.Reserve(0, &evicted));
}

TEST(CacheIndexTest, WhatIsLargerThanTheCacheHasNoPlace) {
  CacheIndex index(20);
  Add(index, "a", 10);
  Names evicted;
  EXPECT_FALSE(index.Reserve(21, &evicted));
  EXPECT_FALSE(index.Reserve(~uint64_t{0}, &evicted));
  EXPECT_TRUE(index.Contains("a"));
}

TEST(CacheIndexTest, ALimitThatShrinksIsKeptByTheNextReservation) {
  CacheIndex index(30);
  for (const char* name : {"a", "b", "c"}) Add(index, name, 10);
  index.set_limit(15);
  EXPECT_EQ(index.size(), 3u);
  EXPECT_THAT(Add(index, "d", 1), ElementsAre("a", "b"));
  index.set_limit(30);
  EXPECT_THAT(Add(index, "e", 19), IsEmpty());
}

TEST(CacheIndexTest, RemovedEntriesMayStillBeUnpinned) {
  CacheIndex index(20);
  Add(index, "a", 10);
  index.Pin("a");
  index.Remove("a");
  index.Remove("a");
  EXPECT_EQ(index.used_bytes(), 0u);
  Add(index, "a", 20);
  index.Unpin("a");
  EXPECT_THAT(Add(index, "b", 20), ElementsAre("a"));
  testing::ExpectError(
      ErrorCode::kInternal, [&] { index.Commit("b", 1); }, "b");
}

TEST(CacheIndexTest, WhateverHappensItHoldsNoMoreThanItsLimitAndWhatItSays) {
  std::mt19937_64 random(testing::TestSeed());
  CacheIndex index(1000);
  std::multiset<std::string> pinned;
  for (int step = 0; step < 20'000; ++step) {
    const std::string name = std::to_string(random() % 50);
    if (random() % 3 == 0 && index.Contains(name)) {
      index.Pin(name);
      pinned.insert(name);
    } else if (random() % 2 == 0 && !pinned.empty()) {
      index.Unpin(*pinned.begin());
      pinned.erase(pinned.begin());
    } else if (!index.Contains(name)) {
      Names evicted;
      const uint64_t bytes = random() % 300;
      if (!index.Reserve(bytes, &evicted)) continue;
      for (const std::string& gone : evicted) EXPECT_FALSE(pinned.contains(gone));
      random() % 4 == 0 ? index.Release(bytes) : index.Commit(name, bytes);
    }
    ASSERT_LE(index.used_bytes(), 1000u) << "step " << step;
    ASSERT_EQ(index.size(), index.names().size());
    for (const std::string& name_pinned : pinned) ASSERT_TRUE(index.Contains(name_pinned));
  }
}

}  // namespace
}  // namespace isthmus::relay
