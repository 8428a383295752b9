// Replicas that follow a real board in a directory.
#include "isthmus/replica/journal.h"
#include "isthmus/replica/staged_swap.h"
#include "tests/integration/main_job.h"

namespace isthmus::testing {
namespace {

using replica::ControlPaths;
using replica::Replica;

class PullTest : public MainJob {};

TEST_F(PullTest, EveryVersionIsReachedFromEveryOther) {
  PublishSteps(4);
  for (const board::VersionNumber from : {1, 2, 3, 4}) {
    for (const board::VersionNumber to : {1, 2, 3, 4}) {
      Pull("replica", from);
      const replica::PullResult result = Pull("replica", to);
      EXPECT_EQ(result.from, from);
      EXPECT_EQ(result.chain.empty(), from == to);
      ExpectIsSource("replica", static_cast<int>(to));
    }
  }
}

TEST_F(PullTest, AChainIsFoldedInOnePull) {
  PublishSteps(4);
  Pull("replica", 1);
  EXPECT_EQ(Pull("replica", 4).chain, (std::vector<std::string>{"patch 2", "patch 3", "patch 4"}));
  EXPECT_EQ(Pull("fresh", 4).chain,
            (std::vector<std::string>{"anchor 1", "patch 2", "patch 3", "patch 4"}));
  ExpectIsSource("replica", 4);
  ExpectIsSource("fresh", 4);
}

TEST_F(PullTest, FilesThatChangeComeAndGoFollow) {
  Publish();
  model_.files = {{"config.json", "{\"v\":2}"}, {"deep/er/added.txt", "x"}};
  model_.metadata = {{"format", "np"}};
  Publish();
  Pull("replica", 1);
  Pull("replica", 2);
  ExpectIsSource("replica", 2);
  Pull("replica", 1);
  ExpectIsSource("replica", 1);
}

TEST_F(PullTest, AMissingVersionOrRunIsNotFound) {
  PublishSteps(1);
  ExpectError(
      ErrorCode::kNotFound, [&] { Pull("replica", 2); }, "no such version");
  const board::Board board = OpenBoard();
  Replica replica(dir_ / "replica", pool_, NoProgress());
  ExpectError(ErrorCode::kNotFound, [&] { replica.Pull(board, "other", 1); });
}

TEST_F(PullTest, ADirectoryWithForeignFilesIsRefused) {
  PublishSteps(1);
  dir_.Write("replica/thesis.tex", "precious");
  ExpectError(
      ErrorCode::kInvalid, [&] { Pull("replica", 1); }, "holds files but no replica");
}

TEST_F(PullTest, AReplicaOfAnotherRunIsRefused) {
  PublishSteps(1);
  Pull("replica", 1);
  board::Board board = OpenBoard();
  publish::Publisher(board, "run-b", dir_ / "baseline-b", pool_, NoProgress())
      .Publish(dir_ / "source-1", {});
  Replica replica(dir_ / "replica", pool_, NoProgress());
  ExpectError(
      ErrorCode::kInvalid, [&] { replica.Pull(board, "run-b", 1); }, "follows run run");
}

TEST_F(PullTest, ADamagedPayloadIsRefusedAndTheReplicaStays) {
  PublishSteps(2);
  Pull("replica", 1);
  Damage(PartOf(2));
  ExpectError(
      ErrorCode::kCorrupt, [&] { Pull("replica", 2); }, "fetch");
  ExpectIsSource("replica", 1);
  EXPECT_EQ(Replica(dir_ / "replica", pool_, NoProgress()).state()->version, 1U);
}

TEST_F(PullTest, AMissingPayloadIsAvoidedByAnotherChain) {
  PublishSteps(2);
  std::erase_if(model_.tensors, [](const auto& tensor) { return tensor.name == "fp8"; });
  Publish();  // 3, an anchor
  PublishSteps(1);
  Pull("replica", 1);
  fs::remove(PartOf(2));
  const replica::PullResult result = Pull("replica", 4);
  EXPECT_EQ(result.chain, (std::vector<std::string>{"anchor 3", "patch 4"}));
  ExpectIsSource("replica", 4);
  ExpectError(ErrorCode::kNotFound, [&] { Pull("other", 2); });
}

// A publisher's defect: objects as the log promises them, a change that leads elsewhere.
TEST_F(PullTest, APatchThatLeadsElsewhereIsAvoidedByAnAnchor) {
  PublishSteps(3);
  Pull("replica", 2);
  const board::Board board = OpenBoard();
  board::Manifest manifest = *board.Read("run", 3);
  manifest.payloads.at(0).parts = board.Read("run", 2)->payloads.at(0).parts;
  const fs::path entry = dir_ / "board/runs/run/log/0000000003.json";
  File::Create(entry).Write(AsBytes(manifest.Serialize()));
  ExpectError(ErrorCode::kCorrupt, [&] { Pull("replica", 3); });
  ExpectIsSource("replica", 2);
  EXPECT_EQ(Replica(dir_ / "replica", pool_, NoProgress()).state()->version, 2U);

  board::Payload anchor = {board::PayloadKind::kAnchor, board::kNoVersion, "", {}};
  for (const auto& [path, content] : FilesOf(dir_ / "source-3")) {
    const std::string key = "runs/run/data/3/anchor/" + std::to_string(anchor.parts.size());
    board.store().Put(key, AsBytes(content));
    anchor.parts.push_back({key, content.size(), Sha256(AsBytes(content)), path});
  }
  manifest.payloads.push_back(anchor);
  File::Create(entry).Write(AsBytes(manifest.Serialize()));
  EXPECT_EQ(Pull("replica", 3).chain, (std::vector<std::string>{"anchor 3"}));
  ExpectIsSource("replica", 3);
}

TEST_F(PullTest, DamagedLocalFilesAreRebuiltFromAnAnchor) {
  PublishSteps(3);
  Pull("replica", 2);
  Damage(dir_ / "replica/model-00001-of-00002.safetensors");
  const replica::PullResult result = Pull("replica", 3);
  EXPECT_THAT(result.notes, ::testing::Contains(::testing::HasSubstr("damaged")));
  ExpectIsSource("replica", 3);
}

TEST_F(PullTest, AnInterruptedChangeIsTakenBackByTheNextOpen) {
  PublishSteps(2);
  Pull("replica", 1);
  const ControlPaths paths(dir_ / "replica");
  const std::string file = "model-00002-of-00002.safetensors";
  {  // What a crash in the middle of an in-place change leaves.
    replica::Journal journal(paths, {Sha256(AsBytes("from")), Sha256(AsBytes("to"))});
    const std::string content = ReadFile(dir_ / "replica" / file, 1 << 30);
    journal.undo().RecordBytes(file, content.size() - 4,
                               AsBytes(content.substr(content.size() - 4)));
    File::OpenReadWrite(dir_ / "replica" / file).WriteAt(content.size() - 4, AsBytes("XXXX"));
  }
  {
    const Replica replica(dir_ / "replica", pool_, NoProgress());
    ASSERT_TRUE(replica.state());
    EXPECT_EQ(replica.state()->version, 1U);
  }
  ExpectIsSource("replica", 1);
  EXPECT_FALSE(Exists(paths.journal()));
}

TEST_F(PullTest, AJournalWhoseUndoDoesNotGiveTheVersionBackMeansNoVersion) {
  PublishSteps(2);
  Pull("replica", 1);
  const ControlPaths paths(dir_ / "replica");
  replica::Journal(paths, {Sha256(AsBytes("from")), Sha256(AsBytes("to"))});
  Damage(dir_ / "replica/model-00001-of-00002.safetensors");
  EXPECT_FALSE(Replica(dir_ / "replica", pool_, NoProgress()).state());
  Pull("replica", 2);  // from an anchor
  ExpectIsSource("replica", 2);
}

TEST_F(PullTest, AnInterruptedReplacementIsCompletedByTheNextOpen) {
  PublishSteps(2);
  Pull("replica", 1);
  Pull("other", 2);
  const ControlPaths paths(dir_ / "replica");
  const ControlPaths other(dir_ / "other");
  // The staged version 2, of which one file has moved in before the crash.
  const auto state = *replica::ReadState(other);
  fs::create_directories(paths.stage());
  for (const auto& [name, content] : FilesOf(dir_ / "other")) {
    const bool moved = name == "config.json";
    const fs::path place = (moved ? dir_ / "replica" : paths.stage()) / name;
    fs::create_directories(place.parent_path());
    File::Create(place).Write(AsBytes(content));
  }
  fs::copy(other.table(state.digest), paths.table(state.digest));
  fs::remove(paths.state());
  std::string swap = "{\"format\":1,\"state\":" + state.Serialize() + ",\"files\":[";
  for (const auto& [name, content] : FilesOf(dir_ / "other")) swap += "\"" + name + "\",";
  swap.back() = ']';
  File::Create(paths.swap()).Write(AsBytes(swap + ",\"removed\":[]}"));

  EXPECT_EQ(Replica(dir_ / "replica", pool_, NoProgress()).state()->version, 2U);
  ExpectIsSource("replica", 2);
  EXPECT_FALSE(Exists(paths.stage()));
}

TEST_F(PullTest, AfterARebootTheReplicaIsVerifiedBeforeItIsBelieved) {
  PublishSteps(1);
  Pull("replica", 1);
  const ControlPaths paths(dir_ / "replica");
  auto state = *replica::ReadState(paths);
  state.boot_id = "another boot";
  WriteFileAtomic(paths.state(), AsBytes(state.Serialize()));
  EXPECT_EQ(Replica(dir_ / "replica", pool_, NoProgress()).state()->boot_id, replica::BootId());
  // A write that the file system lost:
  WriteFileAtomic(paths.state(), AsBytes(state.Serialize()));
  Damage(dir_ / "replica/model-00001-of-00002.safetensors");
  EXPECT_FALSE(Replica(dir_ / "replica", pool_, NoProgress()).state());
}

TEST_F(PullTest, AfterARebootACommittedChangeIsVerifiedThoughItsJournalIsStillThere) {
  PublishSteps(1);
  Pull("replica", 1);
  const ControlPaths paths(dir_ / "replica");
  auto state = *replica::ReadState(paths);
  state.boot_id = "another boot";
  WriteFileAtomic(paths.state(), AsBytes(state.Serialize()));
  replica::Journal(paths, {Sha256(AsBytes("from")), state.digest});
  Damage(dir_ / "replica/model-00001-of-00002.safetensors");  // a write that the disk lost
  EXPECT_FALSE(Replica(dir_ / "replica", pool_, NoProgress()).state());
}

TEST_F(PullTest, AnInterruptedChangeOfAFileThatIsGoneMeansNoVersion) {
  PublishSteps(1);
  Pull("replica", 1);
  const ControlPaths paths(dir_ / "replica");
  const std::string file = "model-00002-of-00002.safetensors";
  replica::Journal(paths, {Sha256(AsBytes("from")), Sha256(AsBytes("to"))})
      .undo()
      .RecordBytes(file, 0, AsBytes("xxxx"));
  fs::remove(dir_ / "replica" / file);
  EXPECT_FALSE(Replica(dir_ / "replica", pool_, NoProgress()).state());
  Pull("replica", 1);
  ExpectIsSource("replica", 1);
}

TEST_F(PullTest, ADamagedJournalOrSwapFileMeansToVerifyNotToStop) {
  PublishSteps(2);
  Pull("replica", 1);
  const ControlPaths paths(dir_ / "replica");
  File::Create(paths.journal()).Write(AsBytes("{"));
  EXPECT_EQ(Replica(dir_ / "replica", pool_, NoProgress()).state()->version, 1U);
  File::Create(paths.swap()).Write(AsBytes("{\"state\":3}"));
  EXPECT_FALSE(Replica(dir_ / "replica", pool_, NoProgress()).state());
  Pull("replica", 2);
  ExpectIsSource("replica", 2);
}

TEST_F(PullTest, ADamagedStateFileMeansNoVersion) {
  PublishSteps(1);
  Pull("replica", 1);
  const ControlPaths paths(dir_ / "replica");
  const std::string state = ReadFile(paths.state(), 1 << 20);
  for (size_t size = 0; size < state.size(); ++size) {
    File::Create(paths.state()).Write(AsBytes(state.substr(0, size)));
    EXPECT_FALSE(Replica(dir_ / "replica", pool_, NoProgress()).state());
  }
  Pull("replica", 1);
  ExpectIsSource("replica", 1);
}

TEST_F(PullTest, ASecondOpenOfAReplicaIsRefused) {
  const Replica replica(dir_ / "replica", pool_, NoProgress());
  ExpectError(
      ErrorCode::kConflict, [&] { Replica(dir_ / "replica", pool_, NoProgress()); },
      "another process is using it");
}

}  // namespace
}  // namespace isthmus::testing
