#include "isthmus/gateway/router.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/router_oracle.h"
#include "tests/support/seed.h"

namespace isthmus::gateway {
namespace {

using lane::Constraint;

IslandView Island(std::string_view id, VersionNumber served,
                  IslandState state = IslandState::kReady) {
  IslandView island;
  island.run = 0;
  island.placement = PlacementOf(id);
  island.served = served;
  island.state = state;
  return island;
}

Snapshot FleetOf(std::vector<IslandView> islands, VersionNumber newest = 0) {
  Snapshot snapshot;
  snapshot.islands = std::move(islands);
  for (const IslandView& island : snapshot.islands) newest = std::max(newest, island.served);
  snapshot.runs = {{"run", newest}};
  return snapshot;
}

Snapshot Ready(size_t count) {
  std::vector<IslandView> islands(count);
  for (size_t i = 0; i < count; ++i) islands[i] = Island(fmt::format("island-{}", i), 1);
  return FleetOf(islands);
}

Constraint Min(VersionNumber version) {
  Constraint constraint;
  constraint.min_version = version;
  return constraint;
}

Constraint Exact(VersionNumber version, std::optional<uint64_t> max_lag = std::nullopt) {
  Constraint constraint;
  constraint.exact_version = version;
  constraint.max_lag_versions = max_lag;
  return constraint;
}

Constraint Lag(uint64_t versions) {
  Constraint constraint;
  constraint.max_lag_versions = versions;
  return constraint;
}

Choice Choose(const Snapshot& snapshot, const Constraint& constraint, bool may_wait = false,
              std::vector<uint32_t> tried = {}, std::string_view session = {}) {
  Ask ask{.constraint = &constraint, .session = session, .tried = tried, .may_wait = may_wait};
  return ChooseIsland(ask, snapshot, 0x123456789ABCDEF0);
}

// As docs/gateway.md has it, for gateways of other builds.
uint64_t ScoreOf(std::string_view session, const IslandView& island) {
  uint64_t bits = XXH3_64bits(session.data(), session.size()) ^ island.placement;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

TEST(SatisfiesTest, LooksAtVersions) {
  EXPECT_TRUE(Satisfies({}, 1, 9));
  EXPECT_FALSE(Satisfies({}, kNoVersion, 9));
  EXPECT_TRUE(Satisfies(Min(0), 1, 9));
  EXPECT_TRUE(Satisfies(Min(5), 5, 9));
  EXPECT_FALSE(Satisfies(Min(5), 4, 9));
  EXPECT_TRUE(Satisfies(Exact(5), 5, 9));
  EXPECT_FALSE(Satisfies(Exact(5), 6, 9));
}

TEST(SatisfiesTest, LooksAtTheLag) {
  EXPECT_TRUE(Satisfies(Lag(2), 7, 9));
  EXPECT_FALSE(Satisfies(Lag(2), 6, 9));
  EXPECT_TRUE(Satisfies(Lag(20), 1, 9));
  EXPECT_TRUE(Satisfies(Lag(0), 10, 9)) << "the newest is revoked, or not known yet";
  EXPECT_FALSE(Satisfies(Lag(20), 1, kNoVersion));
  EXPECT_TRUE(Satisfies(Exact(6, 3), 6, 9));
  EXPECT_FALSE(Satisfies(Exact(6, 2), 6, 9));
}

TEST(RouterTest, SendsWhereItIsSatisfied) {
  const Snapshot snapshot = FleetOf({Island("a", 3), Island("b", 4), Island("c", 5)});
  EXPECT_EQ(Choose(snapshot, Exact(4)).island, 1);
  EXPECT_FALSE(Choose(snapshot, Exact(4)).alternatives);
  EXPECT_TRUE(Choose(snapshot, Min(4)).alternatives);
  EXPECT_EQ(Choose(snapshot, Min(4), false, {2}).island, 1);
  EXPECT_EQ(Choose(snapshot, Lag(0)).island, 2);
}

TEST(RouterTest, AnExactVersionDoesNotCrossASwitch) {
  Snapshot snapshot = FleetOf({Island("a", 4, IslandState::kStaging), Island("b", 4)});
  snapshot.islands[0].target = 5;
  snapshot.islands[1].in_flight = 100;
  EXPECT_EQ(Choose(snapshot, Exact(4)).island, 1);
  EXPECT_TRUE(Choose(snapshot, Exact(4)).alternatives);
  EXPECT_EQ(Choose(snapshot, Min(4)).island, 0);
  snapshot.islands[1].limit = 100;
  EXPECT_EQ(Choose(snapshot, Exact(4)).island, 0) << "only the one that stages has room";
}

TEST(RouterTest, QueuesWhereNoneHasRoom) {
  Snapshot snapshot = FleetOf({Island("a", 4), Island("b", 3)});
  snapshot.islands[0].limit = 8;
  snapshot.islands[0].in_flight = 8;
  EXPECT_EQ(Choose(snapshot, Min(4)).verdict, Verdict::kQueue);
  EXPECT_EQ(Choose(snapshot, Min(4), true).verdict, Verdict::kQueue);
  EXPECT_EQ(Choose(snapshot, {}).island, 1);
  snapshot.islands[0].in_flight = 7;
  EXPECT_EQ(Choose(snapshot, Min(4)).verdict, Verdict::kSend);
}

TEST(RouterTest, AStartingIslandHasItsShareOfRoomButAtLeastOne) {
  Snapshot snapshot = FleetOf({Island("a", 4)});
  snapshot.islands[0].limit = 8;
  snapshot.islands[0].share = 0.5F;
  snapshot.islands[0].in_flight = 4;
  EXPECT_EQ(Choose(snapshot, {}).verdict, Verdict::kQueue);
  snapshot.islands[0].share = 0.1F;
  snapshot.islands[0].in_flight = 0;
  EXPECT_EQ(Choose(snapshot, {}).verdict, Verdict::kSend);
}

TEST(RouterTest, WaitsInTheLineOfAnIslandThatSwitches) {
  Snapshot snapshot = FleetOf({Island("a", 4, IslandState::kCommitting),
                               Island("b", 4, IslandState::kCommitting), Island("c", 4)});
  snapshot.islands[0].target = snapshot.islands[1].target = 5;
  snapshot.islands[0].in_flight = 2;
  const Choice early = Choose(snapshot, Min(5));
  EXPECT_EQ(early.verdict, Verdict::kSendEarly);
  EXPECT_EQ(early.island, 1);
  EXPECT_EQ(Choose(snapshot, Min(5), false, {1}).island, 0);
  EXPECT_EQ(Choose(snapshot, Min(4)).verdict, Verdict::kSend);
  snapshot.islands[0].limit = snapshot.islands[1].limit = 1;
  snapshot.islands[1].in_flight = 1;
  EXPECT_EQ(Choose(snapshot, Min(5)).verdict, Verdict::kWait) << "a switch is under way";
}

TEST(RouterTest, WaitsForOtherVersionsOnlyIfItMay) {
  Snapshot snapshot = FleetOf({Island("a", 4, IslandState::kStaging)});
  snapshot.islands[0].target = 5;
  EXPECT_EQ(Choose(snapshot, Min(5)).verdict, Verdict::kRefuse);
  EXPECT_EQ(Choose(snapshot, Min(5)).newest, 4);
  EXPECT_EQ(Choose(snapshot, Min(5), true).verdict, Verdict::kWait);
  EXPECT_EQ(Choose(snapshot, Min(9), true).verdict, Verdict::kWait);
}

TEST(RouterTest, DoesNotWaitForWhatIsPassed) {
  Snapshot snapshot = FleetOf({Island("a", 4)});
  EXPECT_EQ(Choose(snapshot, Exact(3), true).verdict, Verdict::kRefuse);
  EXPECT_EQ(Choose(snapshot, Exact(5), true).verdict, Verdict::kWait);
  snapshot.islands[0].target = 3;
  EXPECT_EQ(Choose(snapshot, Exact(3), true).verdict, Verdict::kWait) << "it goes back";
  snapshot.runs[0].newest = 9;
  EXPECT_EQ(Choose(snapshot, Exact(5, 1), true).verdict, Verdict::kRefuse);
}

TEST(RouterTest, WaitsForAnIslandThatIsAwayAndForTheFirstReading) {
  Snapshot snapshot = FleetOf({Island("a", 4, IslandState::kSuspect)});
  EXPECT_EQ(Choose(snapshot, {}).verdict, Verdict::kNoIsland);
  EXPECT_EQ(Choose(snapshot, {}, true).verdict, Verdict::kWait);
  snapshot.islands[0].state = IslandState::kDraining;
  EXPECT_EQ(Choose(snapshot, {}, true).verdict, Verdict::kNoIsland);
  snapshot.islands[0].state = IslandState::kReady;
  snapshot.runs[0].newest = kNoVersion;
  EXPECT_EQ(Choose(snapshot, Lag(1)).verdict, Verdict::kRefuse);
  EXPECT_EQ(Choose(snapshot, Lag(1), true).verdict, Verdict::kWait);
}

TEST(RouterTest, LooksAtTheIslandsOfItsRunOnly) {
  Snapshot snapshot = FleetOf({Island("a", 4)});
  snapshot.runs.push_back({"other", 9});
  Ask ask{.run = 1, .may_wait = true};
  EXPECT_EQ(ChooseIsland(ask, snapshot, 0).verdict, Verdict::kNoIsland);
  EXPECT_EQ(ChooseIsland(Ask{.run = 7}, snapshot, 0).verdict, Verdict::kNoIsland);
  EXPECT_EQ(ChooseIsland(Ask{}, FleetOf({}), 0).verdict, Verdict::kNoIsland);
}

TEST(RouterTest, ABlockedIslandGetsNothing) {
  Snapshot snapshot = FleetOf({Island("a", 4)});
  snapshot.islands[0].blocked = true;
  EXPECT_EQ(Choose(snapshot, {}).verdict, Verdict::kNoIsland);
  EXPECT_EQ(Choose(snapshot, {}, true).verdict, Verdict::kWait);
}

// ---- Random fleets.

class RandomFleet {
 public:
  explicit RandomFleet(uint32_t seed) : random_(seed) {}

  uint64_t Below(uint64_t end) { return random_() % end; }
  uint64_t Bits() { return random_(); }

  Snapshot Make(size_t islands) {
    Snapshot snapshot;
    const bool calm = Below(2) == 0, tight = Below(3) == 0;
    for (size_t i = 0; i < islands; ++i) snapshot.islands.push_back(One(i, calm, tight));
    snapshot.runs = {{"one", Below(4) == 0 ? kNoVersion : 5 + Below(3)}, {"two", 6}};
    return snapshot;
  }

  Constraint Ask() {
    Constraint constraint;
    if (Below(3) == 0) constraint.min_version = Below(9);
    if (Below(3) == 0) constraint.exact_version = 1 + Below(9);
    if (Below(3) == 0) constraint.max_lag_versions = Below(4);
    if (constraint.exact_version < constraint.min_version) constraint.exact_version.reset();
    return constraint;
  }

 private:
  IslandView One(size_t i, bool calm, bool tight) {
    IslandView island = Island(fmt::format("{}-{}", random_(), i), Below(8));
    if (Below(2) == 0) island.target = 1 + Below(8);
    island.run = Below(8) == 0 ? 1 : 0;
    island.in_flight = static_cast<uint32_t>(Below(tight ? 5 : 60));
    island.limit = static_cast<uint32_t>(tight ? Below(5) : 50);
    island.share = static_cast<float>(1 + Below(16)) / 16;
    island.state = calm ? IslandState::kReady : static_cast<IslandState>(Below(6));
    island.blocked = Below(10) == 0;
    return island;
  }

  std::mt19937_64 random_;
};

TEST(RouterPropertyTest, DoesAsThePlainRulesSay) {
  RandomFleet random(testing::TestSeed());
  std::map<Verdict, int> seen;
  for (int i = 0; i < 50'000; ++i) {
    const Snapshot snapshot = random.Make(random.Below(12));
    const Constraint constraint = random.Ask();
    std::vector<uint32_t> tried;
    while (random.Below(3) == 0) tried.push_back(static_cast<uint32_t>(random.Below(12)));
    const std::string session = random.Below(2) == 0 ? "" : fmt::format("s{}", random.Below(99));
    const Ask ask{.run = static_cast<uint32_t>(random.Below(2)),
                  .constraint = &constraint,
                  .session = session,
                  .tried = tried,
                  .may_wait = random.Below(2) == 0};
    const Choice choice = ChooseIsland(ask, snapshot, random.Bits());
    const testing::RouterAnswer expected = testing::RouterOracle(ask, snapshot, ScoreOf);
    ASSERT_EQ(choice.verdict, expected.verdict) << "case " << i;
    ++seen[choice.verdict];
    if (choice.verdict != Verdict::kSend) {
      ASSERT_EQ(choice.newest, expected.newest) << "case " << i;
    }
    if (expected.islands.empty()) continue;
    ASSERT_TRUE(expected.islands.contains(choice.island)) << "case " << i;
    ASSERT_EQ(choice.alternatives, expected.alternatives) << "case " << i;
  }
  EXPECT_EQ(seen.size(), 6) << "every verdict was met";
}

TEST(RouterPropertyTest, NeverSendsToAnIslandThatDoesNotSatisfy) {
  RandomFleet random(testing::TestSeed());
  int sent = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Snapshot snapshot = random.Make(30);
    const Constraint constraint = random.Ask();
    const Ask ask{.constraint = &constraint, .session = random.Below(2) == 0 ? "" : "s"};
    const Choice choice = ChooseIsland(ask, snapshot, random.Bits());
    if (choice.verdict != Verdict::kSend && choice.verdict != Verdict::kSendEarly) continue;
    const IslandView& island = snapshot.islands.at(choice.island);
    const bool early = choice.verdict == Verdict::kSendEarly;
    ++sent;
    ASSERT_TRUE(
        Satisfies(constraint, early ? island.target : island.served, snapshot.runs[0].newest));
    ASSERT_EQ(early, island.state == IslandState::kCommitting);
    ASSERT_FALSE(island.blocked);
    ASSERT_EQ(island.run, 0);
  }
  EXPECT_GT(sent, 1000);
}

TEST(RouterPropertyTest, TheOrderOfIslandsDoesNotMatterToSessions) {
  const uint32_t seed = testing::TestSeed();
  RandomFleet random(seed);
  std::mt19937 shuffle(seed);
  for (int i = 0; i < 2'000; ++i) {
    Snapshot one = random.Make(20);
    for (IslandView& island : one.islands) {
      island.share = 0.1F + 0.9F * static_cast<float>(random.Below(1000)) / 1000;
    }
    Snapshot other = one;
    std::shuffle(other.islands.begin(), other.islands.end(), shuffle);
    const std::string session = fmt::format("s{}", i);
    const Choice first = ChooseIsland({.session = session}, one, 1);
    const Choice second = ChooseIsland({.session = session}, other, 2);
    ASSERT_EQ(first.verdict, second.verdict);
    if (first.verdict != Verdict::kSend) continue;
    ASSERT_EQ(one.islands[first.island].placement, other.islands[second.island].placement);
  }
}

// Where each of many sessions goes, by the island's placement, when little is in flight.
std::vector<uint64_t> PlacesOf(const Snapshot& snapshot, size_t sessions) {
  std::vector<uint64_t> places;
  for (size_t i = 0; i < sessions; ++i) {
    const std::string session = fmt::format("session-{}", i);
    places.push_back(
        snapshot.islands[ChooseIsland({.session = session}, snapshot, 0).island].placement);
  }
  return places;
}

constexpr size_t kSessions = 20'000;

TEST(RouterPropertyTest, OnlySessionsOfAnIslandThatGoesMove) {
  Snapshot snapshot = Ready(50);
  const std::vector<uint64_t> before = PlacesOf(snapshot, kSessions);
  snapshot.islands[17].state = IslandState::kGone;
  const uint64_t gone = snapshot.islands[17].placement;
  const std::vector<uint64_t> after = PlacesOf(snapshot, kSessions);
  size_t moved = 0;
  for (size_t i = 0; i < kSessions; ++i) {
    if (before[i] == gone) {
      ++moved;
      ASSERT_NE(after[i], gone);
    } else {
      ASSERT_EQ(before[i], after[i]);
    }
  }
  EXPECT_NEAR(static_cast<double>(moved), kSessions / 50.0, kSessions / 200.0);
}

TEST(RouterPropertyTest, ANewIslandTakesItsShareOfSessionsAndNoOtherMoves) {
  Snapshot snapshot = Ready(49);
  const std::vector<uint64_t> before = PlacesOf(snapshot, kSessions);
  snapshot.islands.push_back(Island("new", 1));
  const std::vector<uint64_t> after = PlacesOf(snapshot, kSessions);
  size_t moved = 0;
  for (size_t i = 0; i < kSessions; ++i) {
    if (before[i] == after[i]) continue;
    ++moved;
    ASSERT_EQ(after[i], PlacementOf("new"));
  }
  EXPECT_NEAR(static_cast<double>(moved), kSessions / 50.0, kSessions / 200.0);
}

// Under load too most sessions stay: with m requests in flight the bound moves a few of them.
TEST(RouterPropertyTest, LoadStaysWithinTheBoundWhateverComesAndGoes) {
  RandomFleet random(testing::TestSeed());
  for (int round = 0; round < 20; ++round) {
    const size_t islands = 1 + random.Below(40), requests = 1 + random.Below(2000);
    Snapshot snapshot = Ready(islands);
    for (size_t i = 0; i < requests; ++i) {
      // Half of all requests are of one session, as if one client had them all.
      const std::string session = fmt::format("s{}", random.Below(2) * random.Below(500));
      const Choice choice = ChooseIsland({.session = session}, snapshot, 0);
      ASSERT_EQ(choice.verdict, Verdict::kSend);
      const double fair = static_cast<double>(i + 1) / static_cast<double>(islands);
      ASSERT_LE(++snapshot.islands[choice.island].in_flight, std::ceil(kLoadBound * fair));
    }
  }
}

TEST(RouterPropertyTest, LoadFollowsShares) {
  Snapshot snapshot = Ready(10);
  snapshot.islands[3].share = 0.25F;
  for (size_t i = 0; i < 925; ++i) {
    const std::string session = fmt::format("s{}", i);
    ++snapshot.islands[ChooseIsland({.session = session}, snapshot, 0).island].in_flight;
  }
  EXPECT_LE(snapshot.islands[3].in_flight, std::ceil(kLoadBound * 925 * 0.25 / 9.25));
}

TEST(RouterPropertyTest, TheLessLoadedOfTwoSpreadsLoadEvenly) {
  RandomFleet random(testing::TestSeed());
  Snapshot snapshot = Ready(100);
  snapshot.islands[0].share = 0.5F;
  for (size_t i = 0; i < 9'950; ++i) {
    ++snapshot.islands[ChooseIsland({}, snapshot, random.Bits()).island].in_flight;
  }
  for (size_t i = 1; i < 100; ++i) EXPECT_NEAR(snapshot.islands[i].in_flight, 100, 10) << i;
  EXPECT_NEAR(snapshot.islands[0].in_flight, 50, 10);
}

}  // namespace
}  // namespace isthmus::gateway
