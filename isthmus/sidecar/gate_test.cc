#include "isthmus/sidecar/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/errors.h"
#include "tests/support/gate.h"

namespace isthmus::sidecar {
namespace {

using ::testing::ElementsAre;
using testing::ExpectError;
using ::testing::IsEmpty;

TEST(GateTest, ARequestIsAdmittedAtTheServedVersion) {
  Gate gate = ReadyGate();
  EXPECT_EQ(gate.Arrive(Any(), At(1)), Admitted(1, 41));
  EXPECT_EQ(gate.Arrive(Min(0), At(1)), Admitted(2, 41));
  EXPECT_EQ(gate.Arrive(Min(41), At(1)), Admitted(3, 41));
  EXPECT_EQ(gate.Arrive(Exact(41), At(1)), Admitted(4, 41));
  EXPECT_EQ(gate.Arrive(OfRun("grpo-7"), At(1)), Admitted(5, 41));
  EXPECT_EQ(gate.in_flight(), 5U);
}

TEST(GateTest, WithoutAWaitWhatIsNotSatisfiedIsRefusedAtOnce) {
  Gate gate = ReadyGate();
  EXPECT_EQ(gate.Arrive(Min(42), At(1)), NotReady(1, Reason::kBehind));
  EXPECT_EQ(gate.Arrive(Exact(42), At(1)), NotReady(2, Reason::kBehind));
  EXPECT_EQ(gate.Arrive(Exact(40), At(1)), NotReady(3, Reason::kPassed));
  EXPECT_EQ(gate.Arrive(OfRun("grpo-8"), At(1)), NotReady(4, Reason::kOtherRun));
  EXPECT_EQ(gate.Arrive(Waiting(0, Min(42)), At(1)), NotReady(5, Reason::kBehind));
}

TEST(GateTest, WhatNeverComesIsNotWaitedFor) {
  Gate gate = ReadyGate();
  EXPECT_EQ(gate.Arrive(Waiting(9'000, Exact(40)), At(1)), NotReady(1, Reason::kPassed));
  EXPECT_EQ(gate.Arrive(Waiting(9'000, OfRun("grpo-8")), At(1)), NotReady(2, Reason::kOtherRun));
  gate.Learn(43, At(2));
  Request exact_and_fresh = Waiting(9'000, Exact(41));
  exact_and_fresh.constraint.max_lag_versions = 1;
  EXPECT_EQ(gate.Arrive(exact_and_fresh, At(3)), NotReady(3, Reason::kLag));
  EXPECT_EQ(gate.waiting(), 0U);
}

TEST(GateTest, AWaitingRequestIsAdmittedWhenItsVersionIsServed) {
  Gate gate = ReadyGate();
  EXPECT_EQ(gate.Arrive(Waiting(9'000, Min(43)), At(1)), Waits(1, Reason::kBehind));
  EXPECT_EQ(gate.Arrive(Waiting(9'000, Exact(42)), At(1)), Waits(2, Reason::kBehind));
  EXPECT_EQ(gate.WantedExactly(), 42U);
  gate.Close(DrainPolicy::kInPlace, 42, At(2));
  gate.BeginCommit(At(2));
  EXPECT_THAT(gate.Open(42, At(3)), ElementsAre(Admitted(2, 42)));
  EXPECT_EQ(gate.WantedExactly(), kNoVersion);
  gate.Close(DrainPolicy::kInPlace, 43, At(4));
  EXPECT_EQ(gate.leaving(), 1U);  // the one for exactly 42
}

TEST(GateTest, AnExactVersionThatIsPassedByIsRefusedThen) {
  Gate gate = ReadyGate();
  gate.Arrive(Waiting(9'000, Exact(42)), At(1));
  gate.Close(DrainPolicy::kInPlace, 43, At(2));
  gate.BeginCommit(At(2));
  EXPECT_THAT(gate.Open(43, At(3)), ElementsAre(NotReady(1, Reason::kPassed, 43)));
}

TEST(GateTest, ADeadlineThatPassesRefuses) {
  Gate gate = ReadyGate();
  gate.Arrive(Waiting(200, Min(42)), At(0));
  gate.Arrive(Waiting(100, Min(43)), At(0));
  EXPECT_EQ(gate.next_deadline(), At(100));
  EXPECT_THAT(gate.Advance(At(99)), IsEmpty());
  EXPECT_THAT(gate.Advance(At(200)),
              ElementsAre(NotReady(2, Reason::kBehind), NotReady(1, Reason::kBehind)));
  EXPECT_EQ(gate.next_deadline(), std::nullopt);
}

TEST(GateTest, AWithdrawnRequestIsForgotten) {
  Gate gate = ReadyGate();
  gate.Arrive(Waiting(200, Exact(42)), At(0));
  EXPECT_TRUE(gate.Withdraw(1));
  EXPECT_FALSE(gate.Withdraw(1));
  EXPECT_EQ(gate.next_deadline(), std::nullopt);
  EXPECT_EQ(gate.WantedExactly(), kNoVersion);
  EXPECT_THAT(gate.Revoke(42, At(1)), IsEmpty());
}

TEST(GateTest, ALagInVersionsCountsFromTheNewestKnown) {
  Gate unknowing(Options());
  unknowing.Open(41, At(0));
  EXPECT_EQ(unknowing.Arrive(Lag(1'000), At(1)), NotReady(1, Reason::kLag));
  Gate gate = ReadyGate();
  EXPECT_EQ(gate.Arrive(Lag(0), At(1)), Admitted(1, 41));
  gate.Learn(43, At(2));
  gate.Learn(42, At(3));  // a stale reading
  EXPECT_EQ(gate.Arrive(Lag(2), At(4)), Admitted(2, 41));
  EXPECT_EQ(gate.Arrive(Lag(1), At(4)), NotReady(3, Reason::kLag));
  EXPECT_EQ(gate.Arrive(Waiting(100, Lag(0)), At(4)), Waits(4, Reason::kLag));
  EXPECT_EQ(gate.Arrive(Waiting(100, Lag(1)), At(4)), Waits(5, Reason::kLag));
  gate.Close(DrainPolicy::kInPlace, 42, At(5));
  gate.BeginCommit(At(5));
  EXPECT_THAT(gate.Open(42, At(6)), ElementsAre(Admitted(5, 42)));
}

TEST(GateTest, ALagInTimeCountsFromWhenTheVersionWasLastSeenToBeTheNewest) {
  Gate gate = ReadyGate();
  gate.Learn(41, At(100));
  EXPECT_EQ(gate.Arrive(TimeLag(50), At(150)), Admitted(1, 41));
  EXPECT_EQ(gate.Arrive(TimeLag(50), At(151)), NotReady(2, Reason::kTimeLag));  // board not reached
  gate.Learn(42, At(160));
  EXPECT_EQ(gate.Arrive(TimeLag(100), At(200)), Admitted(3, 41));
  EXPECT_EQ(gate.Arrive(TimeLag(100), At(201)), NotReady(4, Reason::kTimeLag));
}

TEST(GateTest, ALagInTimeThatAFreshReadingSatisfiesAdmits) {
  Gate gate = ReadyGate();
  EXPECT_EQ(gate.Arrive(Waiting(900, TimeLag(50)), At(151)), Waits(1, Reason::kTimeLag));
  EXPECT_THAT(gate.Learn(41, At(200)), ElementsAre(Admitted(1, 41)));
}

TEST(GateTest, ARevokedVersionIsGoneForThoseThatAskForItAndForAllOthers) {
  Gate gate = ReadyGate();
  EXPECT_EQ(gate.Arrive(Waiting(100, Exact(43)), At(1)), Waits(1, Reason::kBehind));
  EXPECT_THAT(gate.Revoke(43, At(2)), ElementsAre(Revoked(1)));
  EXPECT_EQ(gate.Arrive(Waiting(100, Exact(43)), At(3)), Revoked(2));
  EXPECT_THAT(gate.Revoke(41, At(4)), IsEmpty());
  EXPECT_EQ(gate.Arrive(Exact(41), At(5)), Revoked(3));
  EXPECT_EQ(gate.Arrive(Any(), At(5)), NotReady(4, Reason::kServedRevoked));
  EXPECT_EQ(gate.Arrive(Waiting(100, Any()), At(5)), Waits(5, Reason::kServedRevoked));
  gate.Close(DrainPolicy::kInPlace, 42, At(6));
  gate.BeginCommit(At(6));
  EXPECT_THAT(gate.Open(42, At(7)), ElementsAre(Admitted(5, 42)));
}

TEST(GateTest, ARevokedVersionIsNoLag) {
  Gate gate = ReadyGate();
  gate.Learn(42, At(1));
  EXPECT_EQ(gate.Arrive(Waiting(100, Lag(0)), At(2)), Waits(1, Reason::kLag));
  EXPECT_THAT(gate.Revoke(42, At(3)), ElementsAre(Admitted(1, 41)));
}

TEST(GateTest, BeforeAndAfterAllServingNothingIsAdmitted) {
  Gate gate(Options());
  EXPECT_EQ(gate.Arrive(Waiting(100, Any()), At(0)), Unavailable(1, Reason::kBooting, kNoVersion));
  gate.Open(41, At(1));
  gate.Poison(At(2));
  EXPECT_EQ(gate.Arrive(Waiting(100, Any()), At(2)), Unavailable(2, Reason::kPoisoned, kNoVersion));
  gate.Open(42, At(3));
  EXPECT_EQ(gate.Arrive(Any(), At(3)), Admitted(3, 42));
  gate.Stop(At(4));
  EXPECT_EQ(gate.Arrive(Waiting(100, Any()), At(4)), Unavailable(4, Reason::kStopped, 42));
}

TEST(GateTest, AClosedGateIsWaitedForWithoutBeingAsked) {
  Gate gate = ReadyGate();
  gate.Close(DrainPolicy::kDrain, 42, At(0));
  EXPECT_EQ(gate.Arrive(Any(), At(1)), Waits(1, Reason::kSwitching));
  EXPECT_EQ(gate.Arrive(Min(42), At(1)), Waits(2, Reason::kSwitching));
  EXPECT_EQ(gate.Arrive(Min(43), At(1)), NotReady(3, Reason::kBehind));
  EXPECT_EQ(gate.Arrive(Exact(41), At(1)), NotReady(4, Reason::kPassed));
  EXPECT_EQ(gate.Arrive(Waiting(0, Any()), At(1)), NotReady(5, Reason::kSwitching));
  gate.BeginCommit(At(2));
  EXPECT_EQ(gate.Arrive(Any(), At(2)), Waits(6, Reason::kSwitching));
  EXPECT_THAT(gate.Open(42, At(3)), ElementsAre(Admitted(1, 42), Admitted(2, 42), Admitted(6, 42)));
}

TEST(GateTest, AClosedGateIsWaitedForUntilItsOwnDeadlineOrTheRequests) {
  Gate gate = ReadyGate();
  gate.Close(DrainPolicy::kDrain, 42, At(0));
  gate.Arrive(Any(), At(500));
  gate.Arrive(Waiting(100, Any()), At(500));
  gate.Arrive(Waiting(9'000, Any()), At(500));
  EXPECT_THAT(gate.Advance(At(600)), ElementsAre(NotReady(2, Reason::kSwitching)));
  EXPECT_EQ(gate.next_deadline(), At(1'000));
  EXPECT_THAT(gate.Advance(At(1'000)),
              ElementsAre(NotReady(1, Reason::kSwitching), NotReady(3, Reason::kSwitching)));
  EXPECT_EQ(gate.Arrive(Any(), At(1'000)), NotReady(4, Reason::kSwitching));
}

TEST(GateTest, ThousandsAreReleasedInTheOrderOfArrival) {
  Gate gate = ReadyGate();
  std::vector<RequestId> arrived;
  arrived.reserve(2'000);
  for (int i = 0; i < 1'000; ++i) {
    arrived.push_back(gate.Arrive(Waiting(60'000, Min(42)), At(0)).request);
  }
  gate.Close(DrainPolicy::kDrain, 42, At(0));
  for (int i = 0; i < 1'000; ++i) arrived.push_back(gate.Arrive(Any(), At(i % 10)).request);
  gate.BeginCommit(At(10));
  std::vector<RequestId> released;
  for (const Decision& decision : gate.Open(42, At(11))) released.push_back(decision.request);
  EXPECT_EQ(released, arrived);
}

TEST(GateTest, APinnedTurnThatExcludesItsSessionsVersionIsRefused) {
  Gate gate = ReadyGate();
  gate.Arrive(Pinned("s"), At(0));
  Request turn = Waiting(900, Pinned("s"));
  turn.constraint.min_version = 42;
  EXPECT_EQ(gate.Arrive(turn, At(1)), NotReady(2, Reason::kSessionPin));
  turn.constraint.min_version = 41;
  EXPECT_EQ(gate.Arrive(turn, At(1)), Admitted(3, 41));
}

TEST(GateTest, BeyondItsBoundsTheGateRefuses) {
  GateOptions options = Options();
  options.max_in_flight = 4;
  options.max_waiting = 1;
  options.sessions.max_sessions = 1;
  Gate gate = ReadyGate(options);
  gate.Arrive(Waiting(900, Min(42)), At(0));
  EXPECT_EQ(gate.Arrive(Waiting(900, Min(42)), At(0)), Unavailable(2, Reason::kLineFull));
  gate.Arrive(Pinned("a"), At(0));
  gate.Arrive(Pinned("a"), At(0));
  EXPECT_EQ(gate.Arrive(Pinned("b"), At(0)), Unavailable(5, Reason::kSessionsFull));
  gate.Finish(3, At(0));
  gate.Finish(4, At(0));
  EXPECT_EQ(gate.Arrive(Pinned("b"), At(1'999)), Unavailable(6, Reason::kSessionsFull));
  EXPECT_EQ(gate.Arrive(Pinned("b"), At(2'000)), Admitted(7, 41));
  for (int i = 0; i < 3; ++i) gate.Arrive(Any(), At(2'000));
  EXPECT_EQ(gate.Arrive(Any(), At(2'000)), Unavailable(11, Reason::kInFlightFull));
}

TEST(GateTest, WrongOptionsAreRefused) {
  GateOptions options = Options();
  options.run = "";
  ExpectError(
      ErrorCode::kInvalid, [&] { Gate gate(options); }, "run name");
  options = Options();
  options.island_pin = board::kMaxVersion + 1;
  ExpectError(
      ErrorCode::kInvalid, [&] { Gate gate(options); }, "10000000000");
  options = Options();
  options.drain_limit = milliseconds(-1);
  ExpectError(
      ErrorCode::kInvalid, [&] { Gate gate(options); }, "drain_limit: -1 ms");
}

TEST(GateTest, AnEarlierInstantCountsAsTheLatest) {
  Gate gate = ReadyGate();
  gate.Advance(At(500));
  gate.Arrive(Waiting(100, Min(42)), At(0));
  EXPECT_EQ(gate.next_deadline(), At(600));
}

}  // namespace
}  // namespace isthmus::sidecar
