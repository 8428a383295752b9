// Anchors, cleaning and checking of a run that publishers and replicas go on using.
#include <gmock/gmock.h>

#include "isthmus/board/kept.h"
#include "isthmus/upkeep/anchor.h"
#include "isthmus/upkeep/board_check.h"
#include "isthmus/upkeep/cleaning.h"
#include "isthmus/upkeep/tending.h"
#include "tests/integration/main_job.h"

namespace isthmus::upkeep {
namespace {

using board::VersionNumber;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::ExpectError;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Chain = std::vector<std::string>;

class UpkeepTest : public testing::MainJob {
 protected:
  uint64_t Anchor(VersionNumber version, int source) {
    board::Board board = OpenBoard();
    return AddAnchor(board, "run", version, dir_ / ("source-" + std::to_string(source)), pool_,
                     NoProgress());
  }

  // Keeps the newest `keep_last`; everything is old enough to go.
  CleaningReport Clean(uint64_t keep_last, bool apply = true, std::chrono::hours grace = kNow) {
    board::Board board = OpenBoard();
    CleaningPolicy policy;
    policy.retention.keep_last = keep_last;
    policy.retention.keep_younger = std::chrono::seconds(0);
    policy.grace = grace;
    policy.apply = apply;
    return upkeep::Clean(board, "run", policy, SystemClock().Now() + later_, pool_, NoProgress());
  }

  CheckReport Check(CheckOptions options = {}) {
    return CheckBoard(OpenBoard(), "run", options, pool_, NoProgress());
  }
  std::vector<std::string> Objects() { return OpenBoard().store().List(""); }

  static constexpr std::chrono::hours kNow{0};
  std::chrono::hours later_{1};  // what was stored just now is older than keep_younger
};

TEST_F(UpkeepTest, AJoinBeginsAtTheNewestAnchor) {
  PublishSteps(6);
  EXPECT_GT(Anchor(4, 4), 0u);
  EXPECT_EQ(Pull("replica", 6).chain, (Chain{"anchor 4", "patch 5", "patch 6"}));
  ExpectIsSource("replica", 6);
  EXPECT_EQ(Pull("other", 3).chain, (Chain{"anchor 1", "patch 2", "patch 3"}));
  ExpectIsSource("other", 3);
}

TEST_F(UpkeepTest, AnAnchorIsAddedOnceAndOnlyOfTheVersionThatItIs) {
  PublishSteps(3);
  ExpectError(
      ErrorCode::kInvalid, [&] { Anchor(2, 3); }, "version 2", "source-3");
  ExpectError(ErrorCode::kNotFound, [&] { Anchor(4, 3); });
  EXPECT_EQ(Anchor(1, 1), 0u);  // the first version is one
  EXPECT_GT(Anchor(3, 3), 0u);
  const auto objects = Objects();
  EXPECT_EQ(Anchor(3, 3), 0u);
  EXPECT_EQ(Objects(), objects);
}

TEST_F(UpkeepTest, ADamagedAnchorIsPassedBy) {
  PublishSteps(4);
  Anchor(3, 3);
  const board::Extra extra = {3, board::PayloadKind::kAnchor, board::kNoVersion};
  const board::Board board = OpenBoard();
  const auto payload = board::ReadExtra(board, "run", extra, board.Read("run", 3)->digest);
  Damage(dir_ / "board" / payload->parts.at(0).key);
  const replica::PullResult pulled = Pull("replica", 4);
  EXPECT_EQ(pulled.chain, (Chain{"anchor 1", "patch 2", "patch 3", "patch 4"}));
  EXPECT_THAT(pulled.notes, Contains(HasSubstr("left out a payload")));
  ExpectIsSource("replica", 4);
  Damage(dir_ / "board" / ExtraKey("run", extra));
  EXPECT_EQ(Pull("other", 4).chain.at(0), "anchor 1");
  EXPECT_THAT(Check().problems, ElementsAre(HasSubstr("extra/0000000003/anchor.json")));
}

TEST_F(UpkeepTest, WithoutApplyNothingChanges) {
  PublishSteps(6);
  Anchor(4, 4);
  const auto objects = Objects();
  const CleaningReport report = Clean(2, false);
  EXPECT_THAT(report.kept, ElementsAre(5, 6));
  EXPECT_EQ(report.payloads_removed, 4u);  // anchor 1, patches 2 to 4
  EXPECT_GT(report.bytes_removed, 0u);
  EXPECT_EQ(Objects(), objects);
}

TEST_F(UpkeepTest, WhatIsKeptIsRebuiltAndTheRestIsGone) {
  PublishSteps(6);
  Anchor(4, 4);
  const size_t before = Objects().size();
  const CleaningReport report = Clean(2);
  // All that the report counts, and kept.json and leftovers.json instead.
  EXPECT_EQ(Objects().size(), before - report.objects_removed + 2);
  EXPECT_EQ(Pull("replica", 6).chain, (Chain{"anchor 4", "patch 5", "patch 6"}));
  ExpectIsSource("replica", 6);
  EXPECT_EQ(Pull("other", 5).chain, (Chain{"anchor 4", "patch 5"}));
  ExpectError(ErrorCode::kNotFound, [&] { Pull("third", 2); });
  EXPECT_THAT(Check({true, {5, 6}}).problems, IsEmpty());
  EXPECT_EQ(Clean(2).payloads_removed, 0u);
  PublishSteps(1);  // and the run goes on
  Pull("replica", 7);
  ExpectIsSource("replica", 7);
}

TEST_F(UpkeepTest, WithoutALaterAnchorTheFirstStays) {
  PublishSteps(5);
  const CleaningReport report = Clean(1);
  EXPECT_EQ(report.payloads_removed, 0u);
  Pull("replica", 5);
  ExpectIsSource("replica", 5);
}

TEST_F(UpkeepTest, APinKeepsAVersionUntilItExpires) {
  PublishSteps(6);
  Anchor(5, 5);
  board::Board board = OpenBoard();
  board::PutPin(board, "run", {"evaluation", 2, SystemClock().Now() + std::chrono::hours(3)});
  EXPECT_THAT(Clean(1).kept, ElementsAre(2, 6));
  Pull("replica", 2);
  ExpectIsSource("replica", 2);
  later_ = std::chrono::hours(4);
  const CleaningReport report = Clean(1);
  EXPECT_THAT(report.kept, ElementsAre(6));
  EXPECT_THAT(report.pins_removed, ElementsAre("evaluation"));
  EXPECT_THAT(board::ListPins(board, "run"), IsEmpty());
  ExpectError(ErrorCode::kNotFound, [&] { Pull("other", 2); });
}

TEST_F(UpkeepTest, YoungVersionsAndMultiplesStay) {
  PublishSteps(6);
  board::Board board = OpenBoard();
  CleaningPolicy policy;
  policy.retention = {1, 3, std::chrono::hours(2)};
  const WallTime now = SystemClock().Now();
  EXPECT_THAT(upkeep::Clean(board, "run", policy, now, pool_, NoProgress()).kept,
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(
      upkeep::Clean(board, "run", policy, now + std::chrono::hours(3), pool_, NoProgress()).kept,
      ElementsAre(3, 6));
}

TEST_F(UpkeepTest, AReaderOfAChainThatWasCleanedFindsAnother) {
  PublishSteps(3);
  Pull("replica", 3);
  PublishSteps(5);
  Anchor(7, 7);
  Clean(1);
  EXPECT_EQ(Pull("replica", 8).chain, (Chain{"anchor 7", "patch 8"}));
  ExpectIsSource("replica", 8);
}

TEST_F(UpkeepTest, WithoutTheHintReadersFindTheWayToo) {
  PublishSteps(6);
  Anchor(4, 4);
  Clean(2);
  for (const char* text : {"", "{", R"({"format":1,"through":"x","versions":[]})"}) {
    OpenBoard().store().Put("runs/run/kept.json", AsBytes(text));
    const std::string name = "replica-" + std::to_string(std::string(text).size());
    Pull(name, 6);
    ExpectIsSource(name, 6);
  }
  // One that denies what is there costs the short way, not the version.
  board::Board board = OpenBoard();
  board::WriteKept(board, "run", {6, {}});
  Pull("denied", 6);
  ExpectIsSource("denied", 6);
}

TEST_F(UpkeepTest, LeftoversGoWhenTheyHaveBeenSeenLongEnough) {
  PublishSteps(2);
  OpenBoard().store().Put("runs/run/data/3/0123456789abcdef/00000-patch.part", AsBytes("x"));
  const CleaningReport first = Clean(1, true, std::chrono::hours(24));
  EXPECT_EQ(std::pair(first.leftovers, first.leftovers_removed),
            std::pair(uint64_t{1}, uint64_t{0}));
  later_ = std::chrono::hours(24);
  EXPECT_EQ(Clean(1, true, std::chrono::hours(24)).leftovers_removed, 0u);
  EXPECT_THAT(Check().notes, Contains(HasSubstr("data/3/0123456789abcdef/")));
  later_ = std::chrono::hours(25);
  EXPECT_EQ(Clean(1, true, std::chrono::hours(24)).leftovers_removed, 1u);
  EXPECT_EQ(Clean(1, true, std::chrono::hours(24)).leftovers, 0u);
}

TEST_F(UpkeepTest, WhatIsNotUnderstoodIsLeftAlone) {
  PublishSteps(2);
  const std::vector<std::string> strange = {"runs/run/data/loose",
                                            "runs/run/extra/0000000002/other.json",
                                            "runs/run/log/notes.txt", "runs/run/somebodys/file"};
  for (const std::string& key : strange) OpenBoard().store().Put(key, AsBytes("x"));
  EXPECT_EQ(Clean(1).unexplained, strange);
  for (const std::string& key : strange) EXPECT_TRUE(OpenBoard().store().Size(key)) << key;
  EXPECT_EQ(Check().notes.size(), 4u);
}

TEST_F(UpkeepTest, AVersionThatShouldStayAndCannotBeRebuiltStopsCleaning) {
  PublishSteps(6);
  Anchor(4, 4);
  fs::remove(PartOf(6));
  const auto objects = Objects();
  ExpectError(
      ErrorCode::kCorrupt, [&] { Clean(2); }, "version 6", "is missing");
  EXPECT_EQ(Objects(), objects);
}

TEST_F(UpkeepTest, AHoleInTheLogStopsCleaningAndIsAProblem) {
  PublishSteps(4);
  fs::remove(dir_ / "board/runs/run/log/0000000002.json");
  const auto objects = Objects();
  ExpectError(
      ErrorCode::kCorrupt, [&] { Clean(1); }, "version 2", "no log entry");
  EXPECT_EQ(Objects(), objects);
  EXPECT_THAT(Check().problems, ElementsAre("version 2: no log entry"));
}

TEST_F(UpkeepTest, CheckingFindsWhatIsMissingAlteredOrCannotBeRebuilt) {
  PublishSteps(4);
  EXPECT_THAT(Check({true, {4}}).problems, IsEmpty());
  Damage(PartOf(3));
  EXPECT_THAT(Check().problems, IsEmpty());  // its size is right
  EXPECT_THAT(Check({true, {}}).problems, ElementsAre(HasSubstr("version 3")));
  EXPECT_THAT(Check({false, {2, 3}}).problems, ElementsAre(HasSubstr("version 3")));
  fs::remove(PartOf(2));
  EXPECT_THAT(Check().problems, ElementsAre(HasSubstr("missing")));
}

class TendTest : public UpkeepTest {
 protected:
  TendReport Tend(TendPolicy policy, const std::string& directory = "tend") {
    board::Board board = OpenBoard();
    return Tender(board, "run", dir_ / directory, policy, pool_, NoProgress()).Tend();
  }
  // Anchors by number of versions only.
  static TendPolicy Every(uint64_t skip_every, uint64_t most_between) {
    return {skip_every, 1000, most_between, uint64_t{64} << 20};
  }
};

TEST_F(TendTest, SkipPatchesLeadFromTheBaseAndAnchorsBeginAnew) {
  PublishSteps(16);
  EXPECT_THAT(Tend(Every(4, 8)).added,
              ElementsAre("patch 5 from 1", "anchor 9", "patch 13 from 9"));
  EXPECT_EQ(Pull("replica", 16).chain,
            (Chain{"anchor 9", "patch 13 from 9", "patch 14", "patch 15", "patch 16"}));
  ExpectIsSource("replica", 16);
  EXPECT_EQ(Pull("early", 6).chain, (Chain{"anchor 1", "patch 5 from 1", "patch 6"}));
  ExpectIsSource("early", 6);
  EXPECT_THAT(Check({true, {5, 9, 13, 16}}).problems, IsEmpty());
  EXPECT_THAT(Tend(Every(4, 8)).added, IsEmpty());
}

TEST_F(TendTest, AReplicaThatIsBehindUsesThemToo) {
  PublishSteps(9);
  Tend(Every(4, 100));
  Pull("replica", 1);
  EXPECT_EQ(Pull("replica", 9).chain, (Chain{"patch 9 from 1"}));
  ExpectIsSource("replica", 9);
  Pull("other", 3);
  EXPECT_EQ(Pull("other", 5).chain, (Chain{"patch 4", "patch 5"}));
  ExpectIsSource("other", 5);
}

TEST_F(TendTest, WorkGoesOnFromWhereAnotherDirectoryEnded) {
  PublishSteps(7);
  EXPECT_THAT(Tend(Every(2, 4)).added, ElementsAre("patch 3 from 1", "anchor 5", "patch 7 from 5"));
  PublishSteps(4);
  EXPECT_THAT(Tend(Every(2, 4), "another").added, ElementsAre("anchor 9", "patch 11 from 9"));
  EXPECT_THAT(Tend(Every(2, 4)).added, IsEmpty());
  PublishSteps(2);
  EXPECT_THAT(Tend(Every(2, 4)).added, ElementsAre("anchor 13"));
  Pull("replica", 13);
  ExpectIsSource("replica", 13);
}

TEST_F(TendTest, AnchorsComeByTheBytesOfThePatches) {
  PublishSteps(12);
  const board::Manifest manifest = *OpenBoard().Read("run", 5);
  const double four = 4 * static_cast<double>(manifest.payload_bytes()) /
                      static_cast<double>(manifest.checkpoint_bytes);
  // Patches differ a little in size: between what three and what six of them have.
  EXPECT_THAT(Tend({4, 0.9 * four, 1000, uint64_t{64} << 20}).added,
              ElementsAre("anchor 5", "anchor 9"));
}

TEST_F(TendTest, ALargeSkipPatchHasSeveralParts) {
  PublishSteps(5);
  EXPECT_THAT(Tend({4, 1000, 1000, 1}).added, ElementsAre("patch 5 from 1"));
  const board::Board board = OpenBoard();
  const auto payload = board::ReadExtra(board, "run", {5, board::PayloadKind::kPatch, 1},
                                        board.Read("run", 5)->digest);
  EXPECT_GT(payload->parts.size(), 1u);
  Pull("replica", 5);
  ExpectIsSource("replica", 5);
}

TEST_F(TendTest, ADamagedSkipPatchIsPassedBy) {
  PublishSteps(5);
  Tend(Every(4, 100));
  const board::Board board = OpenBoard();
  const auto payload = board::ReadExtra(board, "run", {5, board::PayloadKind::kPatch, 1},
                                        board.Read("run", 5)->digest);
  Damage(dir_ / "board" / payload->parts.at(0).key);
  const replica::PullResult pulled = Pull("replica", 5);
  EXPECT_EQ(pulled.chain.size(), 5u);
  EXPECT_THAT(pulled.notes, Contains(HasSubstr("left out")));
  ExpectIsSource("replica", 5);
}

TEST_F(TendTest, ACheckpointOfAnotherShapeBeginsAnew) {
  PublishSteps(4);
  model_.tensors.pop_back();
  Publish();
  PublishSteps(4);
  EXPECT_THAT(Tend(Every(4, 100)).added, ElementsAre("patch 9 from 5"));
  EXPECT_EQ(Pull("replica", 9).chain, (Chain{"anchor 5", "patch 9 from 5"}));
  ExpectIsSource("replica", 9);
}

TEST_F(TendTest, CleaningKeepsTheShortWay) {
  PublishSteps(16);
  Tend(Every(4, 8));
  EXPECT_THAT(Clean(1).kept, ElementsAre(16));
  EXPECT_EQ(Pull("replica", 16).chain.at(0), "anchor 9");
  ExpectIsSource("replica", 16);
  PublishSteps(4);
  Tend(Every(4, 8));
  Clean(1);
  EXPECT_THAT(Tend(Every(4, 8), "another").added, IsEmpty());  // what was cleaned stays away
  EXPECT_EQ(Pull("fresh", 20).chain.at(0), "anchor 17");
  ExpectIsSource("fresh", 20);
}

TEST_F(TendTest, PoliciesThatMakeNoSenseAreRefused) {
  PublishSteps(1);
  for (const TendPolicy& policy : {Every(1, 8), Every(0, 8), Every(8, 4), TendPolicy{8, 0, 8, 1}}) {
    ExpectError(ErrorCode::kInvalid, [&] { Tend(policy); });
  }
  EXPECT_THAT(Tend(Every(4, 8)).added, IsEmpty());
}

}  // namespace
}  // namespace isthmus::upkeep
