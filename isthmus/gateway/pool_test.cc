#include "isthmus/gateway/pool.h"

#include <random>

#include "isthmus/gateway/island.h"
#include "tests/support/pool.h"

namespace isthmus::gateway {
namespace {

TEST_F(PoolTest, AnIslandThatRegistersServesAtOnce) {
  Register("a");
  EXPECT_EQ(State("a"), IslandState::kReady);
  EXPECT_EQ(View("a").served, 7U);
  EXPECT_EQ(View("a").placement, PlacementOf("a"));
  EXPECT_EQ(View("a").limit, 256U);
  EXPECT_EQ(pool_->url(At("a")), UrlOf("a"));
  EXPECT_EQ(pool_->id(At("a")), "a");
  EXPECT_EQ(Newest(), 7U);
  EXPECT_EQ(Reason("a"), "");
}

TEST_F(PoolTest, IsGoneWhenItsHeartbeatsEnd) {
  Register("a");
  Pass(seconds(5), {});
  Register("a");
  Pass(milliseconds(9'750));
  EXPECT_EQ(State("a"), IslandState::kReady);
  const uint64_t generation = pool_->generation();
  Pass(milliseconds(250));
  EXPECT_EQ(State("a"), IslandState::kGone);
  EXPECT_GT(pool_->generation(), generation);
  EXPECT_FALSE(pool_->FindRun("r").has_value());
  EXPECT_THAT(Reason("a"), HasSubstr("gone"));
  Pass(minutes(10));
  EXPECT_FALSE(pool_->Find("a").has_value());
  EXPECT_THAT(pool_->Facts(now_), IsEmpty());
}

TEST_F(PoolTest, EachStateOfASidecarHasOneOfAnIsland) {
  Registration a = RegistrationOf("a");
  const auto state = [&](auto change) {
    a.report = ReportOf(7);
    change(&*a.report);
    pool_->Register(a, now_);
    return State("a");
  };
  EXPECT_EQ(state([](IslandReport* r) { r->target = 8; }), IslandState::kStaging);
  EXPECT_EQ(View("a").target, 8U);
  EXPECT_EQ(state([](IslandReport* r) {
              r->ready = false;
              r->gate_closed = true;
              r->phase = "committing";
              r->target = 8;
            }),
            IslandState::kCommitting);
  EXPECT_EQ(View("a").target, 8U);
  for (const char* phase : {"booting", "catching-up", "poisoned", "reseeding"}) {
    EXPECT_EQ(state([&](IslandReport* r) {
                r->ready = false;
                r->phase = phase;
                r->reason = "because";
              }),
              IslandState::kSuspect);
    EXPECT_EQ(Reason("a"), fmt::format("{}: because", phase));
  }
  EXPECT_EQ(state([](IslandReport* r) { r->phase = "stopped"; }), IslandState::kDraining);
  EXPECT_EQ(state([](IslandReport*) {}), IslandState::kReady);
}

TEST_F(PoolTest, WhatLeavesDrainsAndThenIsGone) {
  Register("a");
  Registration leaving = RegistrationOf("a");
  leaving.leaving = true;
  pool_->Register(leaving, now_);
  EXPECT_EQ(State("a"), IslandState::kDraining);
  pool_->OnReport(At("a"), ReportOf(7), now_);
  EXPECT_EQ(State("a"), IslandState::kDraining);
  pool_->OnUnreachable(At("a"), "refused", now_);
  EXPECT_EQ(State("a"), IslandState::kGone);
  pool_->Register(leaving, now_);
  EXPECT_EQ(State("a"), IslandState::kGone);
  leaving.id = "b";
  pool_->Register(leaving, now_);
  EXPECT_FALSE(pool_->Find("b").has_value());
}

TEST_F(PoolTest, ALateWordOfAnEarlierInstanceIsNotTheNewOnes) {
  Register("a");
  Registration next = RegistrationOf("a");
  next.instance = "i2";
  pool_->Register(next, now_);
  Registration leaving = RegistrationOf("a");
  leaving.leaving = true;
  pool_->Register(leaving, now_);
  EXPECT_EQ(State("a"), IslandState::kReady);
}

TEST_F(PoolTest, IsRemovedWhenAsked) {
  Register("a");
  EXPECT_TRUE(pool_->Remove("a", now_));
  EXPECT_EQ(State("a"), IslandState::kGone);
  EXPECT_FALSE(pool_->Remove("a", now_));
  EXPECT_FALSE(pool_->Remove("nobody", now_));
}

TEST_F(PoolTest, OfTwoWithOneIdTheFirstStaysAsLongAsItIsBelieved) {
  Register("a");
  Registration other = RegistrationOf("a", 9);
  other.instance = "i2";
  other.url = UrlOf("elsewhere");
  EXPECT_EQ(CodeOf(other), ErrorCode::kConflict);
  EXPECT_EQ(View("a").served, 7U);
  EXPECT_EQ(pool_->url(At("a")), UrlOf("a"));
  Pass(seconds(10));
  pool_->Register(other, now_);
  EXPECT_EQ(pool_->url(At("a")), UrlOf("elsewhere"));
  EXPECT_EQ(View("a").served, 9U);
}

TEST_F(PoolTest, ARestartFromTheSameUrlTakesThePlace) {
  Register("a");
  const uint32_t place = At("a");
  for (int i = 0; i < 6; ++i) pool_->OnSent(place, now_);
  for (int i = 0; i < 5; ++i) End("a", Outcome::kFailed);
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  Registration next = RegistrationOf("a", 8);
  next.instance = "i2";
  pool_->Register(next, now_);
  EXPECT_EQ(At("a"), place);
  EXPECT_EQ(State("a"), IslandState::kReady);
  EXPECT_EQ(View("a").served, 8U);
  EXPECT_EQ(View("a").in_flight, 6U);
  // The end of what its earlier instance had in flight says nothing of this one.
  for (int i = 0; i < 6; ++i) pool_->OnEnded(place, Outcome::kFailed, now_);
  EXPECT_EQ(State("a"), IslandState::kReady);
  for (int i = 0; i < 5; ++i) End("a", Outcome::kFailed);
  EXPECT_EQ(State("a"), IslandState::kSuspect);
}

TEST_F(PoolTest, FlappingHeartbeatsAreHeldOff) {
  for (int i = 0; i < 4; ++i) {
    Register("a");
    EXPECT_EQ(State("a"), IslandState::kReady) << i;
    pool_->Remove("a", now_);
    Pass(seconds(2));
  }
  Register("a");
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  EXPECT_THAT(Reason("a"), HasSubstr("comes and goes"));
  Pass(milliseconds(750));
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  Pass(milliseconds(250));
  EXPECT_EQ(State("a"), IslandState::kReady);
  pool_->Remove("a", now_);
  Register("a");
  Pass(milliseconds(1'750));
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  Pass(milliseconds(250));
  EXPECT_EQ(State("a"), IslandState::kReady);
}

TEST_F(PoolTest, ASilentOneIsSuspectFromTheSecondPollOn) {
  Register("a");
  pool_->OnUnreachable(At("a"), "connect a:8089: refused", now_);
  EXPECT_EQ(State("a"), IslandState::kReady);
  pool_->OnUnreachable(At("a"), "connect a:8089: refused", now_);
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  EXPECT_EQ(Reason("a"), "connect a:8089: refused");
  // That its word comes here does not prove that requests come there.
  Register("a");
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  pool_->OnReport(At("a"), ReportOf(7), now_);
  EXPECT_EQ(State("a"), IslandState::kReady);
}

TEST_F(PoolTest, AStaleReportIsNone) {
  Registration mute = RegistrationOf("a");
  mute.ttl = minutes(10);
  pool_->Register(mute, now_);
  Pass(seconds(10));
  EXPECT_EQ(State("a"), IslandState::kReady);
  Pass(milliseconds(250));
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  EXPECT_THAT(Reason("a"), HasSubstr("report is"));
  pool_->OnReport(At("a"), ReportOf(7), now_);
  EXPECT_EQ(State("a"), IslandState::kReady);
}

TEST_F(PoolTest, WithoutAReportItWaitsForOne) {
  Registration mute = RegistrationOf("a");
  mute.report.reset();
  pool_->Register(mute, now_);
  EXPECT_EQ(State("a"), IslandState::kSuspect);
  EXPECT_EQ(View("a").run, kNoRun);
  EXPECT_THAT(pool_->snapshot().runs, IsEmpty());
  EXPECT_LT(pool_->Facts(now_).at(0).since_report.count(), 0);
  EXPECT_NE(pool_->Facts(now_).at(0).report, nullptr);
}

TEST_F(PoolTest, TheSnapshotIsAlwaysWhatTheFactsSay) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  Make({.max_islands = 12, .remembered = seconds(20)});
  std::map<std::string, uint32_t> in_flight;
  for (int step = 0; step < 20'000; ++step) {
    const std::string id(1, static_cast<char>('a' + random() % 16));
    const auto place = pool_->Find(id);
    const auto report = [&] {
      IslandReport made = ReportOf(1 + random() % 5, 5 + random() % 5, random() % 3 ? "r" : "s");
      if (random() % 5 == 0) made.ready = false;
      if (random() % 5 == 0) made.gate_closed = true;
      return made;
    };
    switch (random() % 8) {
      case 0: {
        Registration registration = RegistrationOf(id);
        registration.report = report();
        registration.instance = fmt::format("i{}", random() % 2);
        registration.leaving = random() % 10 == 0;
        try {
          pool_->Register(registration, now_);
        } catch (const Error&) {
        }
        break;
      }
      case 1:
        if (place) pool_->OnReport(*place, report(), now_);
        break;
      case 2:
        if (place) pool_->OnUnreachable(*place, "why", now_);
        break;
      case 3:
        if (place) {
          pool_->OnSent(*place, now_);
          ++in_flight[id];
        }
        break;
      case 4:
        if (in_flight[id] > 0) {
          pool_->OnEnded(place.value(), static_cast<Outcome>(random() % 5), now_);
          --in_flight[id];
        }
        break;
      case 5:
        pool_->Remove(id, now_);
        break;
      case 6:
        if (random() % 20 == 0) pool_->SetListed({{id, UrlOf(id)}}, now_);
        break;
      default:
        now_ += milliseconds(random() % 1'000);
        pool_->Advance(now_);
        break;
    }
    // One that leaves may have broken a promise before.
    std::map<std::string, VersionNumber> at_least, at_most;
    for (const IslandFacts& facts : pool_->Facts(now_)) {
      const IslandView& view = pool_->snapshot().islands.at(facts.place);
      ASSERT_EQ(view.state, facts.state) << facts.id;
      ASSERT_EQ(view.in_flight, in_flight[facts.id]);
      const bool of_run = facts.state != IslandState::kGone && facts.since_report.count() >= 0;
      ASSERT_EQ(view.run == kNoRun, !of_run);
      if (!of_run) continue;
      const std::string& run = facts.report->run;
      ASSERT_EQ(pool_->snapshot().runs.at(view.run).name, run);
      const bool broke = facts.reason.starts_with("it broke");
      const bool leaves = facts.state == IslandState::kDraining;
      const VersionNumber head = broke ? kNoVersion : facts.report->head;
      at_most[run] = std::max(at_most[run], head);
      at_least[run] = std::max(at_least[run], leaves ? kNoVersion : head);
    }
    for (const RunView& run : pool_->snapshot().runs) {
      if (run.name.empty()) continue;
      ASSERT_TRUE(at_most.contains(run.name));
      ASSERT_GE(run.newest, at_least[run.name]);
      ASSERT_LE(run.newest, at_most[run.name]);
    }
  }
}

}  // namespace
}  // namespace isthmus::gateway
