// What cleaning keeps of objects that runs share, and the race between it and a fork.
#include <gmock/gmock.h>

#include "isthmus/board/kept.h"
#include "isthmus/board/pin.h"
#include "tests/integration/fork_job.h"

namespace isthmus::upkeep {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::ExpectError;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kAnchor3[] = "runs/run/extra/0000000003/anchor.json";

class ForkCleaningTest : public testing::ForkJob {};

TEST_F(ForkCleaningTest, CleaningTheParentKeepsWhatForksName) {
  PublishSteps(6);
  Anchor(3, 3);
  Anchor(5, 5);
  Fork({"run", 3}, "new");
  Fork({"run", 1}, "other");
  const CleaningReport report = Clean();
  EXPECT_THAT(report.kept, ElementsAre(1, 3, 6));
  EXPECT_EQ(report.leftovers, 0u);
  EXPECT_THAT(report.unexplained, IsEmpty());
  EXPECT_GT(report.payloads_removed, 0u);
  EXPECT_EQ(Clean().payloads_removed, 0u);
  for (const auto& [run, source] : {std::pair("new", 3), std::pair("other", 1)}) {
    Pull(run, 1, run);
    ExpectIsSource(run, source);
    EXPECT_THAT(Check(run, {true, {1}}).problems, IsEmpty());
  }
  Pull("parent", 3);  // it stays in its own run too
  ExpectIsSource("parent", 3);
}

// Whatever becomes of the parent's own entries: no leftovers.
TEST_F(ForkCleaningTest, ObjectsThatOnlyAForkNamesAreNoLeftovers) {
  PublishSteps(4);
  Anchor(3, 3);
  Fork({"run", 3}, "new");
  OpenBoard().store().Delete(kAnchor3);
  EXPECT_EQ(Clean().leftovers, 0u);
  EXPECT_THAT(Check("run").notes, IsEmpty());
  Pull("replica", 1, "new");
  ExpectIsSource("replica", 3);
}

TEST_F(ForkCleaningTest, CleaningAForkLeavesTheParentsObjects) {
  PublishSteps(2);
  Anchor(2, 2);
  Fork({"run", 2}, "new");
  for (int version = 2; version <= 4; ++version) {
    model_.Step(100, &random_);
    Publish({}, "baseline-new", "new");
  }
  board::Board board = OpenBoard();
  AddAnchor(board, "new", 4, Source(5), pool_, NoProgress());
  const auto objects = Objects("runs/run/");
  const CleaningReport report = Clean("new");
  EXPECT_THAT(report.kept, ElementsAre(4));
  EXPECT_EQ(report.payloads_removed, 4u);  // the fork's anchor, patches 2 to 4
  EXPECT_EQ(report.objects_removed, 3u);
  EXPECT_EQ(Objects("runs/run/"), objects);
  Pull("replica", 4, "new");
  ExpectIsSource("replica", 5);
  Pull("parent", 2);
  ExpectIsSource("parent", 2);
  Fork({"new", 1}, "again");  // what a fork names stays, so it can be forked again
  Pull("again", 1, "again");
  ExpectIsSource("again", 2);
}

TEST_F(ForkCleaningTest, AnUnreadableFirstEntryOfAnyRunEndsCleaning) {
  PublishSteps(3);
  Anchor(2, 2);
  Fork({"run", 2}, "new");
  const std::string whole = Read("new").Serialize();
  for (const std::string& text :
       {std::string("{"), Read("run").Serialize(), std::string(R"({"format":2})")}) {
    Put("runs/new/log/0000000001.json", text);
    const auto objects = Objects();
    ExpectError(
        ErrorCode::kCorrupt, [&] { Clean(); }, "runs/new/log/0000000001.json");
    EXPECT_EQ(Objects(), objects);
    EXPECT_THAT(Check("run").problems, IsEmpty());  // no damage of this run
    EXPECT_THAT(Check("run").notes, Contains(HasSubstr("runs/new/log/0000000001.json")));
  }
  Put("runs/new/log/0000000001.json", whole);
  EXPECT_THAT(Clean().kept, ElementsAre(2, 3));
}

// Of a claimed version its own anchor stays, even where a patch is the cheaper way to it.
TEST(ForkRetentionTest, AClaimKeepsTheAnchorsOfItsVersion) {
  constexpr uint64_t kLarge = uint64_t{1} << 40;
  std::vector<board::Manifest> manifests(3);
  for (size_t i = 0; i < manifests.size(); ++i) manifests[i].version = i + 1;
  manifests[0].payloads = {{board::PayloadKind::kAnchor, 0, "", {{"a", 1, {}, "f"}}}};
  manifests[1].payloads = {{board::PayloadKind::kPatch, 1, "", {{"b", 1, {}, ""}}},
                           {board::PayloadKind::kAnchor, 0, "", {{"c", kLarge, {}, "f"}}}};
  manifests[2].payloads = {{board::PayloadKind::kAnchor, 0, "", {{"d", 1, {}, "f"}}}};
  const WallTime now = SystemClock().Now();
  const RetentionPolicy policy = {1, 0, std::chrono::seconds(0)};
  const board::Pin pin = {"p", 2, now + std::chrono::hours(1)};
  const replica::PlannedPayload anchor = {2, 1};
  EXPECT_FALSE(PlanRetention(manifests, {}, policy, now).keep.contains(anchor));
  EXPECT_TRUE(PlanRetention(manifests, {{pin}, {}}, policy, now).keep.contains(anchor));
  EXPECT_TRUE(PlanRetention(manifests, {{}, {"c"}}, policy, now).keep.contains(anchor));
  EXPECT_FALSE(PlanRetention(manifests, {{}, {"d"}}, policy, now).keep.contains(anchor));
}

// kept.json says already what goes, and the objects are still there.
TEST_F(ForkCleaningTest, WhatAKilledCleaningLeftTheNextOneRemoves) {
  struct Killed {};
  PublishSteps(5);
  Anchor(4, 4);
  const auto before = Objects("runs/run/data/");
  EXPECT_THROW(Clean(OpenHooked("runs/run/kept.json", [] { throw Killed(); })), Killed);
  EXPECT_EQ(Objects("runs/run/data/"), before);
  Pull("replica", 2);  // the hint denies the way, so that it is tried without it
  const CleaningReport report = Clean();
  EXPECT_GT(report.objects_removed, 0u);
  EXPECT_LT(Objects("runs/run/data/").size(), before.size());
  EXPECT_EQ(Clean().objects_removed, 0u);
  Pull("replica", 5);
  ExpectIsSource("replica", 5);
  EXPECT_THAT(Check("run").notes, Not(Contains(HasSubstr("nothing names"))));
}

// While the pin is there, a cleaning that begins then keeps the anchor.
TEST_F(ForkCleaningTest, ACleaningThatBeginsDuringAForkKeepsTheAnchor) {
  PublishSteps(4);
  Anchor(3, 3);
  ForkWithHook({"run", 3}, "new", "runs/new/run.json",
               [&] { EXPECT_THAT(Clean().kept, ElementsAre(3, 4)); });
  Pull("replica", 1, "new");
  ExpectIsSource("replica", 3);
  EXPECT_THAT(Objects("runs/run/pins/"), IsEmpty());
}

// The cleaning has read the pins and forks before there were any, and then sees the fork.
TEST_F(ForkCleaningTest, ACleaningThatBeganBeforeSparesAForkThatWasMadeMeanwhile) {
  PublishSteps(4);
  Anchor(2, 2);
  Anchor(3, 3);
  const CleaningReport report = Clean(OpenHooked("runs/run/kept.json", [&] {
    Fork({"run", 2}, "new");
  }));
  // Those of the first anchor, and patches 2 and 3; not those of the second anchor.
  EXPECT_EQ(report.objects_removed, Read("run").payloads.at(0).parts.size() + 2);
  Pull("replica", 1, "new");
  ExpectIsSource("replica", 2);
  EXPECT_EQ(Clean().leftovers, 0u);
  Pull("other", 1, "new");
}

// The same cleaning, further on: it has said what goes and looked for forks. Now the fork sees it.
TEST_F(ForkCleaningTest, AForkSaysThatACleaningTookItsObjects) {
  PublishSteps(4);
  Anchor(3, 3);
  const auto took_all = [&] {
    for (const std::string& key : Objects("runs/run/data/3/")) OpenBoard().store().Delete(key);
  };
  const auto expect_lost = [&](const std::string& run, const std::function<void()>& hook) {
    ExpectError(
        ErrorCode::kConflict,
        [&] {
          ForkWithHook({"run", 3}, run, "runs/" + run + "/log/0000000001.json", hook);
        },
        "a cleaning of run run that takes its objects", "another name");
    EXPECT_THAT(Objects("runs/run/pins/"), IsEmpty());
  };
  expect_lost("a", [&] { OpenBoard().store().Delete(kAnchor3); });
  Anchor(3, 3);
  expect_lost("b", took_all);
  EXPECT_THAT(Check("b").problems, Contains(HasSubstr("missing")));
}

TEST_F(ForkCleaningTest, AForkOfALogEntrysAnchorSeesWhatCleaningSays) {
  PublishSteps(2);
  ExpectError(
      ErrorCode::kConflict,
      [&] {
        ForkWithHook({"run", 1}, "new", "runs/new/log/0000000001.json", [&] {
          board::Board board = OpenBoard();
          board::WriteKept(board, "run", {2, {2}});
        });
      },
      "no longer names them");
}

}  // namespace
}  // namespace isthmus::upkeep
