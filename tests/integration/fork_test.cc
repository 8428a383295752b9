// Runs that start from a version of another.
#include "isthmus/upkeep/fork.h"

#include <gmock/gmock.h>

#include "isthmus/board/extra.h"
#include "isthmus/board/pin.h"
#include "isthmus/upkeep/tending.h"
#include "tests/integration/fork_job.h"

namespace isthmus::upkeep {
namespace {

using board::ForkPoint;
using board::Manifest;
using ::testing::ElementsAre;
using testing::ExpectError;
using ::testing::IsEmpty;

using Chain = std::vector<std::string>;

class ForkTest : public testing::ForkJob {};

TEST_F(ForkTest, AForkIsTheVersionAndNothingIsCopied) {
  PublishSteps(4);
  Anchor(3, 3);
  const auto objects = Objects("runs/run/");
  const ForkResult forked = Fork({"run", 3}, "new");
  EXPECT_EQ(forked.stored_bytes, 0u);
  EXPECT_EQ(Objects("runs/run/"), objects);
  EXPECT_THAT(Objects("runs/new/data/"), IsEmpty());
  const Manifest from = Read("run", 3);
  const Manifest first = Read("new");
  EXPECT_EQ(first.Serialize(), forked.manifest.Serialize());
  EXPECT_EQ(first.fork, (ForkPoint{"run", 3}));
  EXPECT_EQ(first.parent, board::kNoVersion);
  EXPECT_EQ(first.digest, from.digest);
  EXPECT_EQ(first.step, from.step);
  EXPECT_EQ(first.view, from.view);
  EXPECT_EQ(first.files, from.files);
  EXPECT_EQ(std::tuple(first.tensors, first.elements, first.changed, first.checkpoint_bytes),
            std::tuple(from.tensors, from.elements, from.elements, from.checkpoint_bytes));
  EXPECT_THAT(first.meta, IsEmpty());
  EXPECT_THAT(OpenBoard().Runs(), ElementsAre("new", "run"));
  EXPECT_THAT(board::ListPins(OpenBoard(), "run"), IsEmpty());
}

TEST_F(ForkTest, BothRunsGoOnFromTheSameVersion) {
  PublishSteps(3);
  Anchor(3, 3);
  Fork({"run", 3}, "new");
  model_.Step(100, &random_);
  Publish({}, "baseline-new", "new");  // source 4
  model_.Step(100, &random_);
  Publish();  // source 5, version 4 of the parent
  EXPECT_EQ(Pull("replica", 2, "new").chain, (Chain{"anchor 1", "patch 2"}));
  ExpectIsSource("replica", 4);
  EXPECT_EQ(Pull("replica", 1, "new").to, 1u);
  ExpectIsSource("replica", 3);
  Pull("parent", 4);
  ExpectIsSource("parent", 5);
  EXPECT_EQ(Read("new", 2).parent, 1u);
  EXPECT_THAT(Check("new", {true, {1, 2}}).problems, IsEmpty());
  EXPECT_THAT(Check("run").problems, IsEmpty());
}

TEST_F(ForkTest, AVersionWhoseLogEntryIsAnAnchorNeedsNoOther) {
  PublishSteps(2);
  EXPECT_EQ(Fork({"run", 1}, "new").stored_bytes, 0u);
  Pull("replica", 1, "new");
  ExpectIsSource("replica", 1);
}

TEST_F(ForkTest, AVersionWithoutAnAnchorGetsOneFromItsCheckpoint) {
  PublishSteps(3);
  const auto objects = Objects();
  ExpectError(
      ErrorCode::kInvalid,
      [&] {
        Fork({"run", 2}, "new");
      },
      "version 2 of run run", "no anchor", "--checkpoint");
  ExpectError(
      ErrorCode::kInvalid,
      [&] {
        Fork({"run", 2}, "new", Source(3));
      },
      "source-3");
  EXPECT_EQ(Objects(), objects);
  EXPECT_GT(Fork({"run", 2}, "new", Source(2)).stored_bytes, 0u);
  EXPECT_THAT(Objects("runs/run/extra/"), ElementsAre("runs/run/extra/0000000002/anchor.json"));
  Pull("replica", 1, "new");
  ExpectIsSource("replica", 2);
}

TEST_F(ForkTest, AVersionWhoseAnchorWasCleanedGetsAnother) {
  PublishSteps(4);
  Anchor(3, 3);
  Clean();
  ExpectError(
      ErrorCode::kInvalid,
      [&] {
        Fork({"run", 1}, "new");
      },
      "no anchor");
  Fork({"run", 1}, "new", Source(1));
  Pull("replica", 1, "new");
  ExpectIsSource("replica", 1);
  EXPECT_THAT(Clean().kept, ElementsAre(1, 4));
  EXPECT_THAT(Check("new").problems, IsEmpty());
}

TEST_F(ForkTest, WhatCannotBeForkedIsRefusedAndLeavesNothing) {
  PublishSteps(3);
  Anchor(2, 2);
  Fork({"run", 1}, "taken");
  OpenBoard().Revoke("run", 2, "NaN");
  const auto objects = Objects();
  ExpectError(
      ErrorCode::kNotFound,
      [&] {
        Fork({"run", 4}, "new");
      },
      "version 4 of run run", "no such version");
  ExpectError(ErrorCode::kNotFound, [&] { Fork({"run", 0}, "new"); });
  ExpectError(
      ErrorCode::kNotFound,
      [&] {
        Fork({"none", 1}, "new");
      },
      "none");
  ExpectError(
      ErrorCode::kConflict,
      [&] {
        Fork({"run", 2}, "new");
      },
      "version 2 of run run is revoked");
  ExpectError(
      ErrorCode::kConflict,
      [&] {
        Fork({"run", 1}, "taken");
      },
      "taken", "has versions up to 1");
  ExpectError(ErrorCode::kConflict, [&] { Fork({"run", 1}, "run"); });
  ExpectError(ErrorCode::kInvalid, [&] { Fork({"run", 1}, "../new"); });
  EXPECT_EQ(Objects(), objects);
}

TEST_F(ForkTest, AnAnchorWithoutItsObjectsIsRefused) {
  PublishSteps(1);
  const auto parts = Read("run").payloads.at(0).parts;
  const fs::path object = dir_ / "board" / parts.at(0).key;
  File::Create(object).Write(AsBytes("x"));
  ExpectError(
      ErrorCode::kCorrupt,
      [&] {
        Fork({"run", 1}, "new");
      },
      parts.at(0).key, "1 bytes");
  fs::remove(object);
  ExpectError(
      ErrorCode::kNotFound,
      [&] {
        Fork({"run", 1}, "new");
      },
      parts.at(0).key, "missing");
  EXPECT_THAT(Objects("runs/new/"), IsEmpty());
  EXPECT_THAT(Objects("runs/run/pins/"), IsEmpty());
}

// The first version of a fork is the version that it was forked from.
TEST_F(ForkTest, AForkOfAForkSaysWhereItsObjectsLie) {
  PublishSteps(3);
  Anchor(2, 2);
  Fork({"run", 2}, "child");
  Publish({}, "baseline-child", "child");  // source 4
  Fork({"child", 1}, "grandchild");
  EXPECT_EQ(Read("grandchild").fork, (ForkPoint{"run", 2}));
  ExpectError(
      ErrorCode::kInvalid,
      [&] {
        Fork({"child", 2}, "other");
      },
      "no anchor");
  Fork({"child", 2}, "other", Source(4));
  EXPECT_EQ(Read("other").fork, (ForkPoint{"child", 2}));
  Clean();
  Clean("child");
  for (const auto& [run, source] : {std::pair("grandchild", 2), std::pair("other", 4)}) {
    Pull(run, 1, run);
    ExpectIsSource(run, source);
  }
  OpenBoard().Revoke("run", 2, "NaN");
  ExpectError(
      ErrorCode::kConflict,
      [&] {
        Fork({"child", 1}, "late");
      },
      "version 2 of run run is revoked");
}

TEST_F(ForkTest, AddedPayloadsOfAForkAreItsOwn) {
  PublishSteps(1);
  Fork({"run", 1}, "new");
  board::Board board = OpenBoard();
  const Manifest manifest = Read("new");
  ExpectError(
      ErrorCode::kCorrupt, [&] { board::AddExtra(board, manifest, manifest.payloads.at(0)); },
      "does not begin with runs/new/data/");
}

TEST_F(ForkTest, AForkIsTendedAsAnyRun) {
  PublishSteps(2);
  Fork({"run", 1}, "new");
  for (int version = 2; version <= 5; ++version) {
    model_.Step(100, &random_);
    Publish({}, "baseline-new", "new");
  }
  board::Board board = OpenBoard();
  Tender tender(board, "new", dir_ / "tend", {2, 1000, 4, uint64_t{64} << 20}, pool_, NoProgress());
  EXPECT_THAT(tender.Tend().added, ElementsAre("patch 3 from 1", "anchor 5"));
  EXPECT_EQ(Pull("replica", 5, "new").chain, (Chain{"anchor 5"}));
}

TEST_F(ForkTest, OfTwoForksOfOneNameOneIsMade) {
  PublishSteps(1);
  ExpectError(ErrorCode::kConflict, [&] {
    ForkWithHook({"run", 1}, "new", "runs/new/writers/000001.json", [&] {
      Fork({"run", 1}, "new");
    });
  });
  Pull("replica", 1, "new");
  ExpectIsSource("replica", 1);
}

TEST_F(ForkTest, ALongNameIsCutForThePin) {
  PublishSteps(1);
  Fork({"run", 1}, std::string(128, 'n'));
  EXPECT_THAT(board::ListPins(OpenBoard(), "run"), IsEmpty());
}

TEST_F(ForkTest, ForksAreSignedAndBelievedOnlySo) {
  PublishSteps(1);
  const SigningKey key = SigningKey::Generate();
  const auto open = [&](board::Trust trust) {
    return board::Board::Open(store::OpenStore((dir_ / "board").string()), std::move(trust));
  };
  board::Board signing = open({key, {}});
  ForkOn(signing, {"run", 1}, "signed", "");
  Fork({"run", 1}, "unsigned");
  board::Board trusting = open({key, {key.public_key()}});
  replica::Replica replica(dir_ / "replica", pool_, NoProgress());
  ExpectError(
      ErrorCode::kCorrupt, [&] { replica.Pull(trusting, "unsigned", 1); }, "not signed");
  replica.Pull(trusting, "signed", 1);
  ExpectIsSource("replica", 1);
  // Nor is an entry believed that is to be forked.
  ExpectError(
      ErrorCode::kCorrupt,
      [&] {
        ForkOn(trusting, {"run", 1}, "late", "");
      },
      "not signed");
  ForkOn(trusting, {"signed", 1}, "late", "");
  // Cleaning keeps what an entry names that it would not believe.
  PublishSteps(1);
  EXPECT_THAT(Clean().kept, ElementsAre(1, 2));
}

}  // namespace
}  // namespace isthmus::upkeep
