// How islands have behaved: breakers, promises, slow starts.
#include "tests/support/pool.h"

namespace isthmus::gateway {
namespace {

TEST_F(PoolTest, TheBreakerOpensHalfOpensAndCloses) {
  Registration a = RegistrationOf("a");
  pool_->Register(a, now_);
  for (int i = 0; i < 5; ++i) End("a", Outcome::kFailed);
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  EXPECT_TRUE(View("a").blocked);
  EXPECT_EQ(pool_->Facts(now_).at(0).breaker, "open");
  EXPECT_EQ(pool_->Facts(now_).at(0).failures, 5U);
  Pass(seconds(1), {a});
  EXPECT_EQ(State("a"), IslandState::kReady);
  EXPECT_FALSE(View("a").blocked);
  pool_->OnSent(At("a"), now_);
  EXPECT_TRUE(View("a").blocked);
  pool_->OnEnded(At("a"), Outcome::kFailed, now_);
  Pass(milliseconds(1'750), {a});
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  const uint64_t generation = pool_->generation();
  Pass(milliseconds(250), {a});
  EXPECT_EQ(State("a"), IslandState::kReady);
  EXPECT_GT(pool_->generation(), generation);
  End("a", Outcome::kServed);
  EXPECT_FALSE(View("a").blocked);
  EXPECT_EQ(pool_->Facts(now_).at(0).breaker, "closed");
}

TEST_F(PoolTest, ARefusalIsNoFailureButAReportIsDue) {
  Register("a");
  pool_->DuePolls(seconds(1), now_);
  for (int i = 0; i < 20; ++i) End("a", Outcome::kRefused);
  for (int i = 0; i < 20; ++i) End("a", Outcome::kAbandoned);
  EXPECT_EQ(State("a"), IslandState::kReady);
  EXPECT_THAT(pool_->DuePolls(seconds(1), now_ + milliseconds(99)), IsEmpty());
  EXPECT_THAT(pool_->DuePolls(seconds(1), now_ + milliseconds(100)), ElementsAre(At("a")));
}

TEST_F(PoolTest, ABrokenPromiseCostsHalfAMinuteThenAMinute) {
  Registration a = RegistrationOf("a");
  Registration liar = RegistrationOf("liar");
  liar.report->head = 1'000'000;
  pool_->Register(a, now_);
  pool_->Register(liar, now_);
  EXPECT_EQ(Newest(), 1'000'000U);
  for (int i = 0; i < 3; ++i) pool_->OnSent(At("liar"), now_);
  for (int i = 0; i < 3; ++i) pool_->OnEnded(At("liar"), Outcome::kBrokenPromise, now_);
  EXPECT_EQ(State("liar"), IslandState::kSuspect);
  EXPECT_EQ(Newest(), 7U);
  EXPECT_THAT(Reason("liar"), HasSubstr("promise"));
  // A new instance does not clear it.
  liar.instance = "i2";
  Pass(milliseconds(29'750), {a, liar});
  EXPECT_EQ(State("liar"), IslandState::kSuspect);
  Pass(milliseconds(250), {a, liar});
  EXPECT_EQ(State("liar"), IslandState::kReady);
  EXPECT_EQ(Newest(), 1'000'000U);
  End("liar", Outcome::kBrokenPromise);
  Pass(milliseconds(59'750), {a, liar});
  EXPECT_EQ(State("liar"), IslandState::kSuspect);
  Pass(milliseconds(250), {a, liar});
  EXPECT_EQ(State("liar"), IslandState::kReady);
}

TEST_F(PoolTest, ANewIslandsShareGrowsFromATenth) {
  Registration a = RegistrationOf("a");
  pool_->Register(a, now_);
  EXPECT_FLOAT_EQ(View("a").share, 0.1F);
  Pass(seconds(5), {a});
  EXPECT_FLOAT_EQ(View("a").share, 0.55F);
  const uint64_t generation = pool_->generation();
  Pass(seconds(5), {a});
  EXPECT_FLOAT_EQ(View("a").share, 1);
  EXPECT_EQ(pool_->generation(), generation);
  a.instance = "i2";
  pool_->Register(a, now_);
  EXPECT_FLOAT_EQ(View("a").share, 0.1F);
}

TEST_F(PoolTest, TheSlowStartBeginsWhenItServes) {
  Registration a = RegistrationOf("a");
  a.report->ready = false;
  a.report->phase = "booting";
  pool_->Register(a, now_);
  Pass(seconds(60), {a});
  a.report = ReportOf(7);
  pool_->Register(a, now_);
  EXPECT_FLOAT_EQ(View("a").share, 0.1F);
}

TEST_F(PoolTest, WithoutASlowStartTheShareIsWhole) {
  Make({.slow_start = milliseconds(0)});
  Register("a");
  EXPECT_FLOAT_EQ(View("a").share, 1);
}

}  // namespace
}  // namespace isthmus::gateway
