// Lists, runs and places.
#include "tests/support/pool.h"

namespace isthmus::gateway {
namespace {

TEST_F(PoolTest, ListedIslandsAreReplacedAndNeverGoneOtherwise) {
  EXPECT_THAT(pool_->SetListed({{"a", UrlOf("a")}, {"b", UrlOf("b")}}, now_), IsEmpty());
  pool_->OnReport(At("a"), ReportOf(7), now_);
  EXPECT_EQ(State("a"), IslandState::kReady);
  EXPECT_EQ(State("b"), IslandState::kSuspect);
  Pass(minutes(60));
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  EXPECT_EQ(State("b"), IslandState::kSuspect);
  EXPECT_FALSE(pool_->Remove("b", now_));
  pool_->OnReport(At("a"), ReportOf(7), now_);
  pool_->SetListed({{"a", UrlOf("a")}, {"c", UrlOf("c")}}, now_);
  EXPECT_EQ(State("a"), IslandState::kReady);
  EXPECT_EQ(State("b"), IslandState::kGone);
  EXPECT_EQ(State("c"), IslandState::kSuspect);
  pool_->SetListed({{"a", UrlOf("a2")}}, now_);
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  EXPECT_EQ(pool_->url(At("a")), UrlOf("a2"));
}

TEST_F(PoolTest, OfListedIdsThatComeTwiceTheFirstCounts) {
  Register("r");
  const ListedIsland first{"a", UrlOf("a1")};
  const ListedIsland second{"a", UrlOf("a2")};
  const ListedIsland registered{"r", UrlOf("r2")};
  EXPECT_THAT(pool_->SetListed({first, second, registered}, now_), ElementsAre(second, registered));
  EXPECT_EQ(pool_->url(At("a")), UrlOf("a1"));
  EXPECT_EQ(pool_->url(At("r")), UrlOf("r"));
  // When the registered one is gone, it is the listed one's turn.
  Pass(seconds(10));
  EXPECT_EQ(pool_->url(At("r")), UrlOf("r2"));
  EXPECT_EQ(State("r"), IslandState::kSuspect);
}

TEST_F(PoolTest, AListedIslandMayRegisterAtItsUrl) {
  pool_->SetListed({{"a", UrlOf("a")}}, now_);
  Register("a");
  EXPECT_EQ(State("a"), IslandState::kReady);
  Registration elsewhere = RegistrationOf("a");
  elsewhere.url = UrlOf("b");
  EXPECT_EQ(CodeOf(elsewhere), ErrorCode::kConflict);
  Registration leaving = RegistrationOf("a");
  leaving.leaving = true;
  pool_->Register(leaving, now_);
  EXPECT_EQ(State("a"), IslandState::kDraining);
  pool_->OnUnreachable(At("a"), "refused", now_);
  pool_->OnUnreachable(At("a"), "refused", now_);
  EXPECT_EQ(State("a"), IslandState::kDraining);
  pool_->OnReport(At("a"), ReportOf(7), now_);
  EXPECT_EQ(State("a"), IslandState::kReady);
  Pass(seconds(10));
  EXPECT_EQ(State("a"), IslandState::kReady);
}

TEST_F(PoolTest, ARunIsForgottenWithItsLastIsland) {
  Register("a");
  Registration b = RegistrationOf("b");
  b.report = ReportOf(3, 5, "other");
  pool_->Register(b, now_);
  EXPECT_EQ(Newest("other"), 5U);
  EXPECT_NE(View("a").run, View("b").run);
  b.report = ReportOf(7);  // an island of another run now
  pool_->Register(b, now_);
  EXPECT_EQ(View("a").run, View("b").run);
  EXPECT_FALSE(pool_->FindRun("other").has_value());
  pool_->Remove("a", now_);
  EXPECT_TRUE(pool_->FindRun("r").has_value());
  pool_->Remove("b", now_);
  EXPECT_FALSE(pool_->FindRun("r").has_value());
  for (const RunView& run : pool_->snapshot().runs) EXPECT_EQ(run.name, "");
  Register("c");
  EXPECT_EQ(pool_->snapshot().runs.size(), 2U);
}

TEST_F(PoolTest, TheNewestVersionIsTakenBackWithWhoKnewOfIt) {
  Register("a", 7);
  Register("b", 9);
  EXPECT_EQ(Newest(), 9U);
  pool_->OnReport(At("a"), ReportOf(7, 8), now_);
  EXPECT_EQ(Newest(), 9U);
  pool_->OnReport(At("b"), ReportOf(7, 7), now_);  // 9 and 8 are revoked
  EXPECT_EQ(Newest(), 8U);
  pool_->Remove("a", now_);
  EXPECT_EQ(Newest(), 7U);
}

TEST_F(PoolTest, APlaceIsReusedOnlyWhenNothingIsInFlightThere) {
  Register("a");
  const uint32_t place = At("a");
  pool_->OnSent(place, now_);
  pool_->Remove("a", now_);
  Pass(minutes(11));
  EXPECT_EQ(pool_->id(place), "a");
  Register("b");
  EXPECT_NE(At("b"), place);
  pool_->OnEnded(place, Outcome::kServed, now_);
  Pass(milliseconds(250));
  EXPECT_EQ(pool_->id(place), "");
  Register("c");
  EXPECT_EQ(At("c"), place);
  EXPECT_EQ(View("c").in_flight, 0U);
  EXPECT_EQ(pool_->size(), 2U);
}

TEST_F(PoolTest, IslandsAreBounded) {
  Make({.max_islands = 2});
  Register("a");
  Register("b");
  EXPECT_EQ(CodeOf(RegistrationOf("c")), ErrorCode::kUnavailable);
  EXPECT_THAT(pool_->SetListed({{"d", UrlOf("d")}}, now_), testing::SizeIs(1));
  Register("a");
  // One that is gone makes room, unless something is in flight there.
  pool_->OnSent(At("a"), now_);
  pool_->Remove("a", now_);
  EXPECT_EQ(CodeOf(RegistrationOf("c")), ErrorCode::kUnavailable);
  pool_->OnEnded(At("a"), Outcome::kServed, now_);
  Register("c");
  EXPECT_FALSE(pool_->Find("a").has_value());
}

TEST_F(PoolTest, RoomAtAFullIslandIsNews) {
  Make({.island_in_flight = 2});
  Register("a");
  pool_->OnSent(At("a"), now_);
  pool_->OnSent(At("a"), now_);
  uint64_t generation = pool_->generation();
  pool_->OnEnded(At("a"), Outcome::kServed, now_);
  EXPECT_GT(pool_->generation(), generation);
  generation = pool_->generation();
  pool_->OnEnded(At("a"), Outcome::kServed, now_);
  EXPECT_EQ(pool_->generation(), generation);
  EXPECT_THROW(pool_->OnEnded(At("a"), Outcome::kServed, now_), Error);
}

TEST_F(PoolTest, PollsAreDueAsOftenAsSaid) {
  pool_->SetListed({{"l", UrlOf("l")}}, now_);
  Register("a");
  EXPECT_THAT(pool_->DuePolls(seconds(1), now_), ElementsAre(At("l"), At("a")));
  pool_->OnReport(At("l"), ReportOf(7), now_);
  EXPECT_THAT(pool_->DuePolls(seconds(1), now_ + milliseconds(999)), IsEmpty());
  for (int second = 1; second <= 5; ++second) {
    const auto due = pool_->DuePolls(seconds(1), now_ + seconds(second));
    EXPECT_EQ(due.size(), second == 5 ? 2U : 1U) << second;
  }
  // One that gives no answer is asked each time.
  pool_->OnUnreachable(At("a"), "refused", now_);
  EXPECT_THAT(pool_->DuePolls(seconds(1), now_ + seconds(6)), ElementsAre(At("l"), At("a")));
  pool_->Remove("a", now_);
  EXPECT_THAT(pool_->DuePolls(seconds(1), now_ + seconds(20)), ElementsAre(At("l")));
}

TEST_F(PoolTest, AnswersToWhatIsGoneAreIgnored) {
  Register("a");
  const uint32_t place = At("a");
  pool_->Remove("a", now_);
  pool_->OnReport(place, ReportOf(9), now_);
  pool_->OnUnreachable(place, "refused", now_);
  EXPECT_EQ(State("a"), IslandState::kGone);
  EXPECT_FALSE(pool_->FindRun("r").has_value());
}

// Whatever happens, the snapshot that was kept step by step is what one made anew would be.

}  // namespace
}  // namespace isthmus::gateway
