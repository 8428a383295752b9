#include "isthmus/sidecar/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/support/errors.h"
#include "tests/support/gate.h"

namespace isthmus::sidecar {
namespace {

using ::testing::ElementsAre;
using testing::ExpectError;
using ::testing::IsEmpty;

TEST(GateSwitchTest, AGivenUpSwitchAdmitsAtTheOldVersion) {
  Gate gate = ReadyGate();
  gate.Close(DrainPolicy::kDrain, 42, At(0));
  gate.Arrive(Any(), At(1));
  gate.Arrive(Min(42), At(1));
  gate.Arrive(Waiting(900, Min(42)), At(1));
  EXPECT_THAT(gate.Reopen(At(2)), ElementsAre(Admitted(1, 41), NotReady(2, Reason::kBehind)));
  EXPECT_EQ(gate.waiting(), 1U);
  EXPECT_EQ(gate.next_deadline(), At(901));
}

TEST(GateSwitchTest, InPlaceOnlyThoseLeaveThatTheNextVersionDoesNotSatisfy) {
  Gate gate = ReadyGate();
  gate.Arrive(Any(), At(0));
  gate.Arrive(Min(41), At(0));
  gate.Arrive(Exact(41), At(0));
  gate.Arrive(Pinned("s"), At(0));
  gate.Finish(4, At(0));
  gate.Arrive(Pinned("s"), At(0));
  EXPECT_THAT(gate.Close(DrainPolicy::kInPlace, 42, At(31'000)), IsEmpty());
  EXPECT_EQ(gate.leaving(), 2U);
  ExpectError(
      ErrorCode::kInternal, [&] { gate.BeginCommit(At(31'001)); }, "2 requests leaving");
  gate.Finish(3, At(31'001));
  gate.Finish(1, At(31'001));
  EXPECT_EQ(gate.leaving(), 1U);
  gate.Finish(5, At(31'002));
  EXPECT_EQ(gate.leaving(), 0U);
  gate.BeginCommit(At(31'003));
  gate.Open(42, At(31'004));
  EXPECT_EQ(gate.Finish(2, At(31'005)).end, 42U);
}

TEST(GateSwitchTest, GoingBackInPlaceThoseLeaveThatAskedForMore) {
  Gate gate = ReadyGate();
  gate.Arrive(Min(41), At(0));
  gate.Arrive(Min(40), At(0));
  gate.Close(DrainPolicy::kInPlace, 40, At(1));
  EXPECT_EQ(gate.leaving(), 1U);
}

TEST(GateSwitchTest, UnderDrainAllLeaveAndWhatOutlivesTheLimitIsAborted) {
  Gate gate = ReadyGate();
  gate.Arrive(Any(), At(0));
  gate.Arrive(Exact(41), At(0));
  EXPECT_THAT(gate.Close(DrainPolicy::kDrain, 42, At(0)), IsEmpty());
  EXPECT_EQ(gate.leaving(), 2U);
  EXPECT_EQ(gate.next_deadline(), At(5'000));
  gate.Finish(1, At(1));
  EXPECT_THAT(gate.Advance(At(5'000)), ElementsAre(Aborted(2)));
  EXPECT_EQ(gate.leaving(), 1U);  // until it has ended
  EXPECT_THAT(gate.Advance(At(99'000)), IsEmpty());
  gate.Finish(2, At(99'001));
  gate.BeginCommit(At(99'002));
}

TEST(GateSwitchTest, ADrainThatEndedHasNoLimit) {
  Gate gate = ReadyGate();
  gate.Arrive(Any(), At(0));
  gate.Close(DrainPolicy::kDrain, 42, At(0));
  gate.Finish(1, At(1));
  EXPECT_EQ(gate.next_deadline(), std::nullopt);
}

TEST(GateSwitchTest, ASwitchThatWasGivenUpHasNoLimitEither) {
  Gate gate = ReadyGate();
  gate.Arrive(Any(), At(0));
  gate.Close(DrainPolicy::kDrain, 42, At(0));
  gate.Reopen(At(1));
  EXPECT_EQ(gate.next_deadline(), std::nullopt);
  EXPECT_THAT(gate.Advance(At(5'000)), IsEmpty());
}

TEST(GateSwitchTest, NothingIsAbortedTwice) {
  Gate gate = ReadyGate();
  gate.Arrive(Any(), At(0));
  EXPECT_THAT(gate.Close(DrainPolicy::kAbort, 42, At(1)), ElementsAre(Aborted(1)));
  EXPECT_THAT(gate.Poison(At(2)), IsEmpty());
  EXPECT_EQ(gate.leaving(), 1U);
}

TEST(GateSwitchTest, UnderAbortAllAreAbortedAtOnce) {
  Gate gate = ReadyGate();
  gate.Arrive(Any(), At(0));
  gate.Arrive(Exact(41), At(0));
  EXPECT_THAT(gate.Close(DrainPolicy::kAbort, 42, At(1)), ElementsAre(Aborted(1), Aborted(2)));
  EXPECT_EQ(gate.leaving(), 2U);
  EXPECT_EQ(gate.next_deadline(), std::nullopt);
}

TEST(GateSwitchTest, AFailedCommitEndsEverything) {
  Gate gate = ReadyGate();
  gate.Arrive(Any(), At(0));
  gate.Close(DrainPolicy::kInPlace, 42, At(1));
  gate.Arrive(Any(), At(2));
  gate.BeginCommit(At(3));
  EXPECT_THAT(gate.Poison(At(4)), ElementsAre(Unavailable(2, Reason::kPoisoned, kNoVersion),
                                              Aborted(1, Reason::kPoisoned, kNoVersion)));
  EXPECT_EQ(gate.leaving(), 1U);
  ExpectError(
      ErrorCode::kInternal, [&] { gate.Open(42, At(5)); }, "poisoned");
  EXPECT_EQ(gate.Finish(1, At(6)), (Stamp{41, 41, {}}));
  EXPECT_THAT(gate.Open(42, At(7)), IsEmpty());
  EXPECT_EQ(gate.Arrive(Any(), At(8)), Admitted(3, 42));
}

TEST(GateSwitchTest, AnIslandThatStopsLetsRequestsEnd) {
  Gate gate = ReadyGate();
  gate.Arrive(Any(), At(0));
  gate.Arrive(Waiting(900, Min(42)), At(0));
  EXPECT_THAT(gate.Stop(At(1)), ElementsAre(Unavailable(2, Reason::kStopped)));
  EXPECT_THAT(gate.Stop(At(2)), IsEmpty());
  EXPECT_EQ(gate.leaving(), 1U);
  EXPECT_THAT(gate.Advance(At(5'001)), ElementsAre(Aborted(1)));
  gate.Finish(1, At(5'002));
  EXPECT_EQ(gate.leaving(), 0U);
}

TEST(GateSwitchTest, AnIslandThatStopsInTheMiddleOfACommitAbortsWhatIsInFlight) {
  Gate gate = ReadyGate();
  gate.Arrive(Any(), At(0));
  gate.Close(DrainPolicy::kInPlace, 42, At(1));
  gate.BeginCommit(At(1));
  EXPECT_THAT(gate.Stop(At(2)), ElementsAre(Aborted(1, Reason::kStopped, kNoVersion)));
}

TEST(GateSwitchTest, AStampSaysWhatChangedAndWhen) {
  Gate gate = ReadyGate();
  gate.Arrive(Any(), At(0));
  gate.Arrive(Any(), At(0));
  EXPECT_EQ(gate.Finish(2, At(1)), (Stamp{41, 41, {}}));
  gate.Close(DrainPolicy::kInPlace, 42, At(2));
  gate.BeginCommit(At(3));
  EXPECT_EQ(gate.StampOf(1).end, 41U);
  gate.Resume(At(4));
  EXPECT_EQ(gate.served(), 41U);
  const VersionChange to_42 = {41, 42, At(3), At(4)};
  EXPECT_EQ(gate.StampOf(1), (Stamp{41, 42, {{to_42}, true}}));
  gate.Open(42, At(5));
  gate.Arrive(Any(), At(6));
  Switch(&gate, 42, At(6));  // the same version again is no change
  Switch(&gate, 43, At(7));
  const VersionChange to_43 = {42, 43, At(7), At(7)};
  EXPECT_EQ(gate.Finish(1, At(8)), (Stamp{41, 43, {{to_42, to_43}, true}}));
  EXPECT_EQ(gate.Finish(3, At(8)), (Stamp{42, 43, {{to_43}, true}}));
}

TEST(GateSwitchTest, AStampThatHasForgottenChangesSaysSo) {
  Gate gate = ReadyGate();
  gate.Arrive(Any(), At(0));
  const VersionNumber last = 41 + CommitLog::kMaxChanges;
  for (VersionNumber version = 42; version <= last; ++version) Switch(&gate, version, At(1));
  EXPECT_TRUE(gate.StampOf(1).record.complete);
  Switch(&gate, last + 1, At(2));
  const Stamp stamp = gate.Finish(1, At(3));
  EXPECT_FALSE(stamp.record.complete);
  EXPECT_EQ(stamp.record.changes.size(), CommitLog::kMaxChanges);
  EXPECT_EQ(stamp.record.changes.front().from, 42U);
}

TEST(GateSwitchTest, ASessionStaysWithTheVersionOfItsFirstPinnedTurn) {
  Gate gate = ReadyGate();
  gate.Arrive(Pinned("s"), At(0));
  gate.Finish(1, At(1'000));
  EXPECT_EQ(gate.Prepare(42, At(1'500)), At(3'000));
  ExpectError(
      ErrorCode::kInternal, [&] { gate.Close(DrainPolicy::kInPlace, 42, At(2'999)); },
      "Close while ready");
  EXPECT_EQ(gate.Arrive(Pinned("s"), At(2'999)), Admitted(2, 41));
  EXPECT_EQ(gate.Prepare(42, At(2'999)), At(11'500));  // as long as the turn takes
  gate.Finish(2, At(4'000));
  EXPECT_EQ(gate.Prepare(42, At(4'000)), At(6'000));
  Switch(&gate, 42, At(6'000));
  EXPECT_EQ(gate.Arrive(Pinned("s"), At(6'001)), NotReady(3, Reason::kPassed, 42));
  Request follows = Pinned("s");
  follows.pin_session = false;
  EXPECT_EQ(gate.Arrive(follows, At(6'002)), Admitted(4, 42));
  EXPECT_EQ(gate.Arrive(Pinned("other"), At(6'002)), Admitted(5, 42));
}

TEST(GateSwitchTest, LeasesHoldNoIslandForLongerThanItsLimit) {
  Gate gate = ReadyGate();
  gate.Prepare(42, At(0));
  for (int64_t ms = 0; ms < 10'000; ms += 1'000) {
    gate.Finish(gate.Arrive(Pinned(std::to_string(ms)), At(ms)).request, At(ms));
  }
  EXPECT_EQ(gate.Prepare(42, At(9'999)), At(10'000));
  Switch(&gate, 42, At(10'000));
}

TEST(GateSwitchTest, ASessionHoldsNoVersionForLongerThanItsLimit) {
  Gate gate = ReadyGate();
  for (int64_t ms = 0; ms <= 29'000; ms += 1'000) {
    gate.Finish(gate.Arrive(Pinned("s"), At(ms)).request, At(ms));
  }
  gate.Arrive(Pinned("s"), At(29'500));
  EXPECT_EQ(gate.Prepare(42, At(29'500)), At(30'000));
}

TEST(GateSwitchTest, LeasesDoNotHoldARevokedVersionNorTheSameOne) {
  Gate gate = ReadyGate();
  gate.Arrive(Pinned("s"), At(0));
  EXPECT_LE(gate.Prepare(41, At(1)), At(1));
  EXPECT_GT(gate.Prepare(42, At(1)), At(1));
  gate.Revoke(41, At(2));
  EXPECT_LE(gate.Prepare(42, At(2)), At(2));
  EXPECT_EQ(gate.Arrive(Pinned("s"), At(3)), Revoked(2));
}

TEST(GateSwitchTest, APinnedIslandStays) {
  GateOptions options = Options();
  options.island_pin = 41;
  Gate gate(options);
  ExpectError(ErrorCode::kInternal, [&] { gate.Open(40, At(0)); });
  gate.Open(41, At(0));
  gate.Learn(45, At(0));
  EXPECT_EQ(gate.Arrive(Min(41), At(1)), Admitted(1, 41));
  EXPECT_EQ(gate.Arrive(Waiting(900, Min(42)), At(1)), NotReady(2, Reason::kIslandPinned));
  EXPECT_EQ(gate.Arrive(Waiting(900, Lag(3)), At(1)), NotReady(3, Reason::kIslandPinned));
  ExpectError(ErrorCode::kInternal, [&] { gate.Close(DrainPolicy::kInPlace, 42, At(1)); });
  Switch(&gate, 41, At(2));
}

TEST(GateSwitchTest, CallsOutOfTurnAreRefusedAndChangeNothing) {
  Gate gate(Options());
  const auto refused = [&](const auto& call) {
    const GateState before = gate.state();
    ExpectError(ErrorCode::kInternal, call, "gate: ");
    EXPECT_EQ(gate.state(), before);
  };
  const auto close = [&] { gate.Close(DrainPolicy::kInPlace, 42, At(1)); };
  const auto begin = [&] { gate.BeginCommit(At(1)); };
  const auto resume = [&] { gate.Resume(At(1)); };
  const auto reopen = [&] { gate.Reopen(At(1)); };
  const auto prepare = [&] { gate.Prepare(42, At(1)); };
  for (const auto& call : {std::function<void()>(close), {begin}, {resume}, {reopen}, {prepare}}) {
    refused(call);
  }
  refused([&] { gate.Open(kNoVersion, At(1)); });
  refused([&] { gate.Finish(1, At(1)); });
  gate.Open(41, At(1));
  for (const auto& call : {std::function<void()>(begin), {resume}, {reopen}}) refused(call);
  refused([&] { gate.Open(42, At(1)); });
  gate.Revoke(43, At(1));
  refused([&] { gate.Close(DrainPolicy::kInPlace, 43, At(1)); });
  close();
  for (const auto& call : {std::function<void()>(close), {resume}, {prepare}}) refused(call);
  begin();
  refused([&] { gate.Open(43, At(1)); });
  for (const auto& call : {std::function<void()>(close), {begin}, {reopen}}) refused(call);
  resume();
  refused(resume);
  gate.Stop(At(2));
  refused([&] { gate.Boot(At(2)); });
  refused([&] { gate.Poison(At(2)); });
  refused([&] { gate.Open(42, At(2)); });
}

}  // namespace
}  // namespace isthmus::sidecar
