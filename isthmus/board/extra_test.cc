#include "isthmus/board/extra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isthmus/board/pin.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::board {
namespace {

using ::testing::ElementsAre;
using testing::ExpectError;
using ::testing::IsEmpty;
using testing::TempDir;

// A board with versions 1 to 8 of the run "r".
class AddedTest : public ::testing::Test {
 protected:
  AddedTest() {
    Board::Init(*store::OpenStore(dir_.path()));
    board_.emplace(Open());
    const Writer writer = board_->OpenWriter("r", "bf16");
    for (VersionNumber version = 1; version <= 8; ++version) {
      Manifest manifest;
      manifest.run = "r";
      manifest.version = version;
      manifest.parent = version - 1;
      manifest.epoch = writer.epoch;
      manifest.digest = Sha256(AsBytes(std::to_string(version)));
      board_->Commit(writer, manifest);
    }
  }

  Board Open(Trust trust = {}) const {
    return Board::Open(store::OpenStore(dir_.path()), std::move(trust));
  }
  Manifest ManifestOf(VersionNumber version) const { return *board_->Read("r", version); }

  static Payload PatchFrom(VersionNumber base) {
    return {PayloadKind::kPatch, base, "direct", {{"runs/r/data/8/0f/0", 7, {}, ""}}};
  }
  static Payload AnchorPayload() {
    return {PayloadKind::kAnchor, kNoVersion, "", {{"runs/r/data/8/0f/1", 9, {}, "a.json"}}};
  }
  std::optional<Payload> Read(const Board& board, const Extra& extra) const {
    return ReadExtra(board, "r", extra, ManifestOf(extra.version).digest);
  }

  TempDir dir_;
  std::optional<Board> board_;
};

const Extra kAnchor8 = {8, PayloadKind::kAnchor, kNoVersion};
const Extra kPatch4To8 = {8, PayloadKind::kPatch, 4};

TEST_F(AddedTest, WhatIsAddedIsListedAndRead) {
  EXPECT_TRUE(AddExtra(*board_, ManifestOf(8), PatchFrom(4)));
  EXPECT_TRUE(AddExtra(*board_, ManifestOf(8), AnchorPayload()));
  EXPECT_TRUE(AddExtra(*board_, ManifestOf(2), AnchorPayload()));
  EXPECT_THAT(ListExtras(*board_, "r"),
              ElementsAre(Extra{2, PayloadKind::kAnchor, kNoVersion}, kAnchor8, kPatch4To8));
  EXPECT_EQ(Read(*board_, kPatch4To8)->parts.at(0).bytes, 7u);
  EXPECT_EQ(Read(*board_, kAnchor8)->parts.at(0).path, "a.json");
  EXPECT_FALSE(Read(*board_, {8, PayloadKind::kPatch, 6}));
  EXPECT_THAT(ListExtras(*board_, "other"), IsEmpty());
}

TEST_F(AddedTest, ThereIsOneOfAKindAndBaseAndItStays) {
  EXPECT_TRUE(AddExtra(*board_, ManifestOf(8), PatchFrom(4)));
  Payload other = PatchFrom(4);
  other.parts[0].bytes = 1;
  EXPECT_FALSE(AddExtra(*board_, ManifestOf(8), other));
  EXPECT_EQ(Read(*board_, kPatch4To8)->bytes(), 7u);
}

TEST_F(AddedTest, WhatReadersWouldRefuseIsNotAdded) {
  Payload foreign = PatchFrom(4);
  foreign.parts[0].key = "runs/other/data/8/0f/0";
  ExpectError(
      ErrorCode::kCorrupt, [&] { AddExtra(*board_, ManifestOf(8), foreign); }, "runs/r/data/");
  ExpectError(
      ErrorCode::kCorrupt, [&] { AddExtra(*board_, ManifestOf(8), PatchFrom(8)); }, "base");
  EXPECT_THAT(ListExtras(*board_, "r"), IsEmpty());
}

TEST_F(AddedTest, AnObjectThatSaysOtherThanItsKeyIsCorrupt) {
  EXPECT_TRUE(AddExtra(*board_, ManifestOf(8), PatchFrom(4)));
  const std::string key = ExtraKey("r", kPatch4To8);
  const std::string text = ReadFile(dir_ / key, 10'000);
  const std::pair<const char*, const char*> changes[] = {
      {R"("version":8)", R"("version":7)"},  {R"("run":"r")", R"("run":"s")"},
      {R"("base":4)", R"("base":5)"},        {R"("digest":"sha256:)", R"("digest":"sha256:f)"},
      {R"("format":1)", R"("format":null)"}, {R"("kind":"patch")", R"("kind":"other")"}};
  for (const auto& [from, to] : changes) {
    std::string changed = text;
    changed.replace(changed.find(from), std::string(from).size(), to);
    WriteFileAtomic(dir_ / key, AsBytes(changed));
    ExpectError(
        ErrorCode::kCorrupt, [&] { Read(*board_, kPatch4To8); }, key);
  }
}

TEST_F(AddedTest, OtherKeysAreNoAddedPayloads) {
  for (const char* name :
       {"x.json", "0000000008/other.json", "8/anchor.json", "0000000008/patch-4.json",
        "0000000008/patch-0000000008.json", "0000000000/anchor.json", "000000000a/anchor.json",
        "0000000008/anchor.json.old", "0000000008/patch-0000000000.json"}) {
    board_->store().Put(std::string("runs/r/extra/") + name, {});
  }
  EXPECT_THAT(ListExtras(*board_, "r"), IsEmpty());
}

TEST_F(AddedTest, ATrustingReaderWantsThemSigned) {
  const SigningKey key = SigningKey::Generate();
  EXPECT_TRUE(AddExtra(*board_, ManifestOf(8), PatchFrom(4)));
  Board signing = Open({key, {}});
  EXPECT_TRUE(AddExtra(signing, ManifestOf(8), AnchorPayload()));
  const Board trusting = Open({std::nullopt, {key.public_key()}});
  EXPECT_TRUE(Read(trusting, kAnchor8));
  ExpectError(
      ErrorCode::kCorrupt, [&] { Read(trusting, kPatch4To8); }, "not signed");
  ExpectError(
      ErrorCode::kCorrupt, [&] { trusting.Read("r", 8); }, "log/0000000008", "not signed");
}

TEST_F(AddedTest, PinsAreReplacedListedAndRemoved) {
  const WallTime soon = ParseTime("2026-01-31T09:30:00.250Z");
  PutPin(*board_, "r", {"evaluation", 3, soon});
  PutPin(*board_, "r", {"a.b", 5, soon});
  PutPin(*board_, "r", {"evaluation", 4, soon + std::chrono::hours(1)});
  const std::vector<Pin> pins = ListPins(*board_, "r");
  ASSERT_EQ(pins.size(), 2u);
  EXPECT_EQ(pins[0].name, "a.b");
  EXPECT_EQ(pins[1].version, 4u);
  EXPECT_EQ(pins[1].expires_at, soon + std::chrono::hours(1));
  EXPECT_TRUE(RemovePin(*board_, "r", "a.b"));
  EXPECT_FALSE(RemovePin(*board_, "r", "a.b"));
  EXPECT_EQ(ListPins(*board_, "r").size(), 1u);
}

TEST_F(AddedTest, PinsThatCannotBeAreRefused) {
  ExpectError(
      ErrorCode::kNotFound,
      [&] {
        PutPin(*board_, "r", {"p", 9, {}});
      },
      "version 9");
  ExpectError(
      ErrorCode::kInvalid,
      [&] {
        PutPin(*board_, "r", {"a/b", 1, {}});
      },
      "a/b");
  board_->store().Put("runs/r/pins/p.json", AsBytes("{}"));
  ExpectError(
      ErrorCode::kCorrupt, [&] { ListPins(*board_, "r"); }, "pins/p.json");
}

}  // namespace
}  // namespace isthmus::board
