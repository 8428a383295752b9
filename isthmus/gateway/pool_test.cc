#include "isthmus/gateway/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "isthmus/base/error.h"
#include "isthmus/gateway/island.h"

namespace isthmus::gateway {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

IslandReport ReportOf(VersionNumber served, VersionNumber head = kNoVersion,
                      std::string run = "r") {
  IslandReport report;
  report.run = std::move(run);
  report.ready = true;
  report.phase = "ready";
  report.served = served;
  report.head = head == kNoVersion ? served : head;
  return report;
}

net::Origin UrlOf(std::string_view host) { return {false, std::string(host), 8089}; }

Registration RegistrationOf(std::string id, VersionNumber served = 7) {
  Registration registration;
  registration.id = id;
  registration.instance = "i1";
  registration.url = UrlOf(id);
  registration.report = ReportOf(served);
  return registration;
}

class PoolTest : public testing::Test {
 protected:
  void Make(PoolOptions options) { pool_ = std::make_unique<Pool>(options); }
  void Register(std::string id, VersionNumber served = 7) {
    pool_->Register(RegistrationOf(std::move(id), served), now_);
  }
  // Heartbeats of all that are named go on, once a second.
  void Pass(milliseconds time, const std::vector<Registration>& alive = {}) {
    for (milliseconds left = time; left.count() > 0; left -= milliseconds(250)) {
      now_ += std::min(left, milliseconds(250));
      for (const Registration& one : alive) pool_->Register(one, now_);
      pool_->Advance(now_);
    }
  }
  uint32_t At(std::string_view id) { return pool_->Find(id).value(); }
  const IslandView& View(std::string_view id) { return pool_->snapshot().islands.at(At(id)); }
  IslandState State(std::string_view id) { return View(id).state; }
  std::string Reason(std::string_view id) {
    for (const IslandFacts& facts : pool_->Facts(now_)) {
      if (facts.id == id) return facts.reason;
    }
    return "not there";
  }
  VersionNumber Newest(std::string_view run = "r") {
    return pool_->snapshot().runs.at(pool_->FindRun(run).value()).newest;
  }
  void End(std::string_view id, Outcome outcome) {
    pool_->OnSent(At(id), now_);
    pool_->OnEnded(At(id), outcome, now_);
  }
  ErrorCode CodeOf(const Registration& registration) {
    try {
      pool_->Register(registration, now_);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  }

  std::unique_ptr<Pool> pool_ = std::make_unique<Pool>(PoolOptions{});
  MonotonicTime now_{std::chrono::hours(1)};
};

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
      case 7:
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
