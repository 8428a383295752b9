// Publishing to a real board in a directory.
#include <atomic>
#include <thread>

#include "tests/integration/main_job.h"

namespace isthmus::testing {
namespace {

using board::PayloadKind;

class PublishTest : public MainJob {};

TEST_F(PublishTest, TheFirstVersionIsAnAnchorAndTheNextOnesPatches) {
  const publish::PublishResult first = Publish();
  EXPECT_EQ(first.manifest.version, 1U);
  EXPECT_EQ(first.manifest.payloads.at(0).kind, PayloadKind::kAnchor);
  EXPECT_EQ(first.anchor_reason, "first version of the run");
  const uint64_t changed_bytes = model_.Step(1000, &random_);
  const publish::PublishResult second = Publish();
  EXPECT_EQ(second.manifest.version, 2U);
  EXPECT_EQ(second.manifest.parent, 1U);
  EXPECT_EQ(second.manifest.payloads.at(0).kind, PayloadKind::kPatch);
  EXPECT_LE(second.manifest.changed, changed_bytes);
  EXPECT_GT(second.manifest.changed, changed_bytes / 2);
  EXPECT_LT(second.manifest.payload_bytes(), first.manifest.payload_bytes() / 100);
}

TEST_F(PublishTest, TheManifestSaysWhatWasPublished) {
  publish::PublishOptions options;
  options.step = 1260;
  options.meta = {{"loss", "0.5"}};
  Publish(options);
  const auto manifest = OpenBoard().Read("run", 1);
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->step, 1260);
  EXPECT_EQ(manifest->meta.at("loss"), "0.5");
  EXPECT_EQ(manifest->view, "bf16");
  EXPECT_EQ(manifest->tensors, model_.tensors.size());
  EXPECT_EQ(manifest->digest,
            tensor::DigestCheckpoint(tensor::Checkpoint::Open(dir_ / "source-1"), pool_).Digest());
  EXPECT_TRUE(manifest->files.contains("config.json"));
}

TEST_F(PublishTest, AnUnchangedCheckpointIsAnEmptyVersion) {
  Publish();
  const publish::PublishResult second = Publish();
  EXPECT_EQ(second.manifest.changed, 0U);
  EXPECT_EQ(second.manifest.payload_bytes(), 0U);
  EXPECT_EQ(Pull("replica", 2).to, 2U);
  ExpectIsSource("replica", 2);
}

TEST_F(PublishTest, ALostTensorMakesAnAnchorAndSaysWhy) {
  Publish();
  std::erase_if(model_.tensors, [](const auto& tensor) { return tensor.name == "fp8"; });
  const publish::PublishResult second = Publish();
  EXPECT_EQ(second.anchor_reason, "tensor fp8 is gone");
  EXPECT_EQ(second.manifest.payloads.at(0).kind, PayloadKind::kAnchor);
  Pull("replica", 1);
  Pull("replica", 2);
  ExpectIsSource("replica", 2);
}

TEST_F(PublishTest, AFileThatBecomesAFolderMakesAnAnchor) {
  Publish();
  model_.files = {{"config.json/nested", "x"}};
  EXPECT_EQ(Publish().anchor_reason, "config.json is a file in one and a folder in the other");
  Pull("replica", 1);
  Pull("replica", 2);
  ExpectIsSource("replica", 2);
  Pull("replica", 1);
  ExpectIsSource("replica", 1);
}

TEST_F(PublishTest, ADamagedBaselineIsNoticedAndRebuiltFromTheBoard) {
  PublishSteps(2);
  Damage(dir_ / "baseline/model-00001-of-00002.safetensors");
  model_.Step(100, &random_);
  const publish::PublishResult third = Publish();
  EXPECT_THAT(third.notes, ::testing::Contains(::testing::HasSubstr("rebuilt from the board")));
  EXPECT_EQ(third.manifest.payloads.at(0).kind, PayloadKind::kPatch);
  Pull("replica", 3);
  ExpectIsSource("replica", 3);
}

TEST_F(PublishTest, ALostBaselineIsRebuiltFromTheBoard) {
  PublishSteps(3);
  fs::remove_all(dir_ / "baseline");
  PublishSteps(1);
  EXPECT_EQ(OpenBoard().Read("run", 4)->payloads.at(0).kind, PayloadKind::kPatch);
  Pull("replica", 4);
  ExpectIsSource("replica", 4);
}

TEST_F(PublishTest, ManyPartsGiveTheSameVersion) {
  Publish();
  model_.Step(3, &random_);
  publish::PublishOptions options;
  options.part_bytes = 10000;
  const publish::PublishResult second = Publish(options);
  EXPECT_GT(second.manifest.payloads.at(0).parts.size(), 2U);
  Pull("replica", 1);
  EXPECT_EQ(Pull("replica", 2).chain, std::vector<std::string>{"patch 2"});
  ExpectIsSource("replica", 2);
}

TEST_F(PublishTest, OneSessionPublishesManyVersionsInOneEpoch) {
  board::Board board = OpenBoard();
  publish::Publisher publisher(board, "run", dir_ / "baseline", pool_, NoProgress());
  for (const uint64_t version : {1, 2, 3}) {
    model_.Step(500, &random_);
    model_.Write(dir_ / "source");
    EXPECT_EQ(publisher.Publish(dir_ / "source", {}).manifest.version, version);
  }
  EXPECT_EQ(board.Read("run", 3)->epoch, 1U);
}

TEST_F(PublishTest, AnotherSessionWithTheSameBaselineIsRefusedWhileOneIsOpen) {
  board::Board board = OpenBoard();
  const publish::Publisher publisher(board, "run", dir_ / "baseline", pool_, NoProgress());
  ExpectError(
      ErrorCode::kConflict, [&] { Publish(); }, "another process is using it");
}

TEST_F(PublishTest, AWriterThatWasSupersededCommitsNothing) {
  board::Board board = OpenBoard();
  publish::Publisher old_writer(board, "run", dir_ / "baseline-a", pool_, NoProgress());
  model_.Write(dir_ / "source");
  old_writer.Publish(dir_ / "source", {});
  model_.Step(100, &random_);
  Publish({}, "baseline-b");
  model_.Step(100, &random_);
  model_.Write(dir_ / "source");
  ExpectError(ErrorCode::kConflict, [&] { old_writer.Publish(dir_ / "source", {}); });
  EXPECT_EQ(OpenBoard().Head("run"), 2U);
  Pull("replica", 2);
  ExpectIsSource("replica", 1);
}

TEST_F(PublishTest, OfTwoRacingPublishersExactlyOneWinsEachNumber) {
  Publish();
  for (int round = 0; round < 10; ++round) {
    const board::VersionNumber head = OpenBoard().Head("run");
    std::atomic<int> won = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      const std::string name = "racer-" + std::to_string(i);
      model_.Step(300, &random_);
      model_.Write(dir_ / (name + "-source"));
      threads.emplace_back([&, name] {
        try {
          ThreadPool pool(1);
          board::Board board = OpenBoard();
          publish::Publisher publisher(board, "run", dir_ / name, pool, NoProgress());
          publisher.Publish(dir_ / (name + "-source"), {});
          ++won;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kConflict) << error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_GE(won, 1);
    ASSERT_EQ(OpenBoard().Head("run"), head + static_cast<uint64_t>(won));
  }
}

TEST_F(PublishTest, AFailedAttemptLeavesNoObjects) {
  Publish();
  const auto objects = OpenBoard().store().List("runs/run/data/");
  model_.Write(dir_ / "source-2");
  File::Create(dir_ / "source-2/model-00002-of-00002.safetensors").Write(AsBytes("cut"));
  board::Board board = OpenBoard();
  publish::Publisher publisher(board, "run", dir_ / "baseline", pool_, NoProgress());
  ExpectError(ErrorCode::kCorrupt, [&] { publisher.Publish(dir_ / "source-2", {}); });
  EXPECT_EQ(OpenBoard().store().List("runs/run/data/"), objects);
  EXPECT_EQ(OpenBoard().Head("run"), 1U);
}

}  // namespace
}  // namespace isthmus::testing
