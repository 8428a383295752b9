#include "isthmus/board/board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "isthmus/store/dir_store.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::board {
namespace {

using store::DirStore;
using store::OpenStore;
using store::Store;
using store::TransferProgress;
using ::testing::ElementsAre;
using testing::ExpectError;
using ::testing::IsEmpty;
using testing::TempDir;

// How an injected kUnavailable fails: before or after the store did what was asked.
enum class Fault { kNotDone, kDone };

// What tests see of, and do to, the calls of one board.
struct Script {
  std::map<std::string, Fault> faults;  // by "call key"; each happens once
  std::vector<std::string> calls;       // "call key", in order
  std::mutex mutex;

  size_t Count(std::string_view call) const {
    return static_cast<size_t>(std::ranges::count_if(
        calls, [&](const std::string& made) { return made.starts_with(call); }));
  }
};

// A directory store that follows a script. Calls that a board has no business making fail the test.
class ScriptedStore final : public Store {
 public:
  ScriptedStore(const fs::path& root, Script* script) : store_(root), script_(script) {}

  std::string Describe() const override { return store_.Describe(); }
  std::optional<std::string> Get(const std::string& key, uint64_t max_bytes) override {
    return Call("Get", key, [&] { return store_.Get(key, max_bytes); });
  }
  std::optional<uint64_t> Size(const std::string& key) override {
    return Call("Size", key, [&] { return store_.Size(key); });
  }
  void Put(const std::string& key, ByteSpan content) override {
    Call("Put", key, [&] { return store_.Put(key, content), 0; });
  }
  bool Create(const std::string& key, ByteSpan content) override {
    return Call("Create", key, [&] { return store_.Create(key, content); });
  }
  std::vector<std::string> List(const std::string& prefix) override {
    return Call("List", prefix, [&] { return store_.List(prefix); });
  }
  std::string GetRange(const std::string& key, uint64_t, uint64_t) override {
    ADD_FAILURE() << "GetRange " << key;
    return "";
  }
  void Fetch(const std::string& key, const fs::path&, uint64_t, const TransferProgress&) override {
    ADD_FAILURE() << "Fetch " << key;
  }
  FileDigest PutFile(const std::string& key, const fs::path&, const TransferProgress&) override {
    ADD_FAILURE() << "PutFile " << key;
    return {};
  }
  void Delete(const std::string& key) override { ADD_FAILURE() << "Delete " << key; }

 private:
  template <typename Action>
  std::invoke_result_t<Action> Call(std::string_view call, const std::string& key,
                                    const Action& action) {
    const std::string made = fmt::format("{} {}", call, key);
    const std::optional<Fault> fault = Note(made);
    if (fault == Fault::kNotDone) Throw(ErrorCode::kUnavailable, "injected: {}", made);
    auto result = action();
    if (fault == Fault::kDone) Throw(ErrorCode::kUnavailable, "injected: {}", made);
    return result;
  }
  std::optional<Fault> Note(const std::string& made) {
    const std::lock_guard lock(script_->mutex);
    script_->calls.push_back(made);
    const auto fault = script_->faults.extract(made);
    return fault.empty() ? std::nullopt : std::optional(fault.mapped());
  }

  DirStore store_;
  Script* script_;
};

class BoardTest : public ::testing::Test {
 public:
  ~BoardTest() override { EXPECT_THAT(script_.faults, IsEmpty()) << "faults that nothing met"; }

 protected:
  Board Open() { return Board::Open(std::make_unique<ScriptedStore>(dir_.path(), &script_)); }

  static Manifest Version(const Writer& writer, VersionNumber version, int64_t step = 0) {
    Manifest manifest;
    manifest.run = writer.run;
    manifest.version = version;
    manifest.parent = version - 1;
    manifest.epoch = writer.epoch;
    manifest.step = step;
    manifest.view = "bf16";
    manifest.producer = "board_test";
    return manifest;
  }
  // A writer that has committed 1 to `count`.
  Writer CommitVersions(VersionNumber count) {
    Writer writer = board_.OpenWriter("r", "bf16");
    for (VersionNumber version = 1; version <= count; ++version) {
      board_.Commit(writer, Version(writer, version));
    }
    return writer;
  }

  TempDir dir_;
  Script script_;
  Board board_ = [this] {
    DirStore store(dir_.path());
    Board::Init(store);
    return Open();
  }();
};

TEST_F(BoardTest, InitTwiceIsAConflict) {
  DirStore store(dir_.path());
  const std::string before = ReadFile(dir_ / "board.json", 1000);
  ExpectError(
      ErrorCode::kConflict, [&] { Board::Init(store); }, dir_.path().string());
  EXPECT_EQ(ReadFile(dir_ / "board.json", 1000), before);
}

TEST_F(BoardTest, EachBoardHasAnIdentityOfItsOwn) {
  EXPECT_EQ(board_.uuid().size(), 36u);
  EXPECT_EQ(Open().uuid(), board_.uuid());
  const TempDir other;
  Board::Init(*std::make_unique<DirStore>(other.path()));
  EXPECT_NE(Board::Open(OpenStore(other.path())).uuid(), board_.uuid());
}

TEST(BoardOpenTest, AMissingBoardIsNotFoundAndSaysHowToMakeOne) {
  const TempDir dir;
  ExpectError(
      ErrorCode::kNotFound, [&] { Board::Open(OpenStore(dir.path())); }, dir.path().string(),
      "isthmus board init");
}

TEST(BoardOpenTest, ANewerBoardIsInvalid) {
  const TempDir dir;
  dir.Write("board.json", R"({"format":2,"rooms":[]})");
  ExpectError(
      ErrorCode::kInvalid, [&] { Board::Open(OpenStore(dir.path())); }, "board.json",
      "board format 2, this program reads 1");
}

TEST(BoardOpenTest, AMalformedBoardIsCorrupt) {
  const TempDir dir;
  for (const std::string text : {"", "{", "[]", R"({"format":1})", R"({"board":"x"})",
                                 R"({"format":1,"board":7})", R"({"format":1,"board":""})"}) {
    SCOPED_TRACE(text);
    dir.Write("board.json", text);
    ExpectError(
        ErrorCode::kCorrupt, [&] { Board::Open(OpenStore(dir.path())); }, "board.json",
        dir.path().string());
  }
  dir.Write("board.json", std::string(100'000, ' '));
  ExpectError(ErrorCode::kCorrupt, [&] { Board::Open(OpenStore(dir.path())); });
}

TEST_F(BoardTest, ANewRunHasNoVersions) {
  EXPECT_THAT(board_.Runs(), IsEmpty());
  EXPECT_EQ(board_.Head("r"), kNoVersion);
  EXPECT_EQ(board_.Read("r", 1), std::nullopt);
  board_.OpenWriter("r", "bf16");
  EXPECT_THAT(board_.Runs(), ElementsAre("r"));
  EXPECT_EQ(board_.Head("r"), kNoVersion);
}

TEST_F(BoardTest, CommittedVersionsAreReadBack) {
  const Writer writer = CommitVersions(2);
  EXPECT_EQ(board_.Head("r"), 2u);
  const std::optional<Manifest> read = Open().Read("r", 2);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->Serialize(), Version(writer, 2).Serialize());
  for (const VersionNumber none : {VersionNumber{0}, VersionNumber{3}, kMaxVersion + 1}) {
    EXPECT_EQ(board_.Read("r", none), std::nullopt);
  }
  EXPECT_TRUE(fs::exists(dir_ / "runs/r/log/0000000002.json"));
  EXPECT_TRUE(fs::exists(dir_ / "runs/r/writers/000001.json"));
}

TEST_F(BoardTest, RunsAreWhateverHasARunOrALogEntry) {
  dir_.Write("runs/only-run/run.json", "{}");
  dir_.Write("runs/only-log/log/0000000001.json", "{}");
  dir_.Write("runs/no-entry/log/1.json", "{}");
  dir_.Write("runs/only-data/data/1/x/log/0000000001.json", "{}");
  dir_.Write("runs/a-file", "{}");
  EXPECT_THAT(board_.Runs(), ElementsAre("only-log", "only-run"));
}

TEST_F(BoardTest, RunNamesAreChecked) {
  for (const std::string run : {"", "../r", "a/b", ".r"}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { board_.Head(run); }, "run name");
    ExpectError(
        ErrorCode::kInvalid, [&] { board_.Read(run, 1); }, "run name");
    ExpectError(
        ErrorCode::kInvalid, [&] { board_.OpenWriter(run, "bf16"); }, "run name");
    ExpectError(
        ErrorCode::kInvalid, [&] { Board::PartKey(run, 1, "a", "p"); }, "run name");
  }
}

TEST_F(BoardTest, AnEntryOfAnotherRunOrVersionIsCorrupt) {
  const Writer writer = CommitVersions(1);
  dir_.Write("runs/r/log/0000000002.json", Version(writer, 3).Serialize());
  ExpectError(
      ErrorCode::kCorrupt, [&] { board_.Read("r", 2); }, "0000000002.json", "version 3");
  dir_.Write("runs/other/log/0000000001.json", Version(writer, 1).Serialize());
  ExpectError(
      ErrorCode::kCorrupt, [&] { board_.Read("other", 1); }, "runs/other/log", "run r");
  dir_.Write("runs/r/log/0000000004.json", "{}");
  ExpectError(
      ErrorCode::kCorrupt, [&] { board_.Read("r", 4); }, "0000000004.json", "format: missing");
}

TEST_F(BoardTest, AnEntryIsAskedForOnce) {
  CommitVersions(6);
  script_.calls.clear();
  EXPECT_EQ(board_.Read("r", 6)->version, 6u);  // just committed
  EXPECT_THAT(script_.calls, IsEmpty());
  EXPECT_EQ(board_.Read("r", 1)->version, 1u);
  EXPECT_EQ(board_.Read("r", 1)->version, 1u);
  EXPECT_EQ(script_.Count("Get"), 1u);
  EXPECT_FALSE(board_.Read("r", 7));
  EXPECT_FALSE(board_.Read("r", 7));  // it may come
  EXPECT_EQ(script_.Count("Get"), 3u);
}

TEST_F(BoardTest, TheHeadIsFoundWithoutAListing) {
  CommitVersions(3);
  script_.calls.clear();
  EXPECT_EQ(board_.Head("r"), 3u);
  EXPECT_THAT(script_.calls, ElementsAre("Get runs/r/head.json", "Size runs/r/log/0000000003.json",
                                         "Size runs/r/log/0000000004.json"));
}

TEST_F(BoardTest, AStaleHintIsFollowedByProbes) {
  CommitVersions(5);
  dir_.Write("runs/r/head.json", R"({"format":1,"version":2})");
  script_.calls.clear();
  EXPECT_EQ(board_.Head("r"), 5u);
  EXPECT_EQ(script_.Count("List"), 0u);
}

TEST_F(BoardTest, AHintThatNothingSupportsIsIgnored) {
  CommitVersions(5);
  for (const std::string hint :
       {R"({"format":1,"version":9})", R"({"format":1,"version":0})", R"({"format":1})",
        R"({"format":1,"version":10000000000})", R"({"format":9,"version":2})", "", "{", "[]"}) {
    SCOPED_TRACE(hint);
    dir_.Write("runs/r/head.json", hint);
    EXPECT_EQ(board_.Head("r"), 5u);
  }
  dir_.Write("runs/r/head.json", std::string(100'000, ' '));
  EXPECT_EQ(board_.Head("r"), 5u);
  fs::remove(dir_ / "runs/r/head.json");
  EXPECT_EQ(board_.Head("r"), 5u);
}

TEST_F(BoardTest, ForeignNamesInTheLogAreNoVersions) {
  CommitVersions(1);
  for (const char* name : {"9.json", "0000000009.txt", "000000000x.json", "+000000009.json",
                           "0000000009.json.bak", "0000000000.json", "0000000009.json/x"}) {
    dir_.Write(std::string("runs/r/log/") + name, "{}");
  }
  fs::remove(dir_ / "runs/r/head.json");
  EXPECT_EQ(board_.Head("r"), 1u);
}

TEST_F(BoardTest, AnUnreachableStoreIsNotAMissingHint) {
  CommitVersions(1);
  script_.faults = {{"Get runs/r/head.json", Fault::kNotDone}};
  ExpectError(ErrorCode::kUnavailable, [&] { board_.Head("r"); });
}

TEST_F(BoardTest, ALaterWriterTakesTheRunOver) {
  const Writer first = CommitVersions(1);
  const Writer second = Open().OpenWriter("r", "bf16");
  EXPECT_EQ(first.epoch, 1u);
  EXPECT_EQ(second.epoch, 2u);
  EXPECT_NE(first.id, second.id);
  EXPECT_NO_THROW(board_.CheckWriter(second));
  ExpectError(
      ErrorCode::kConflict, [&] { board_.CheckWriter(first); }, "run r", "epoch 1");
  ExpectError(
      ErrorCode::kConflict, [&] { board_.Commit(first, Version(first, 2)); }, "version 2",
      "epoch 1");
  EXPECT_EQ(board_.Head("r"), 1u);
  board_.Commit(second, Version(second, 2));
  EXPECT_EQ(board_.Head("r"), 2u);
}

TEST_F(BoardTest, AWriterThatNamesItsIdResumesItsEpoch) {
  const Writer first = board_.OpenWriter("r", "bf16");
  const Writer resumed = Open().OpenWriter("r", "bf16", first.id);
  EXPECT_EQ(resumed.epoch, first.epoch);
  EXPECT_EQ(resumed.id, first.id);
  EXPECT_EQ(board_.OpenWriter("r", "bf16", "unknown").epoch, 2u);
  // Somebody else was there since: the old claim is gone.
  EXPECT_EQ(board_.OpenWriter("r", "bf16", first.id).epoch, 3u);
}

TEST_F(BoardTest, RacingWritersGetDistinctEpochs) {
  constexpr int kWriters = 8;
  std::latch start(kWriters);
  std::vector<Writer> writers(kWriters);
  std::vector<std::jthread> threads;
  threads.reserve(kWriters);
  for (Writer& writer : writers) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      writer = board_.OpenWriter("r", "bf16");
    });
  }
  threads.clear();
  std::ranges::sort(writers, {}, &Writer::epoch);
  for (size_t i = 0; i < writers.size(); ++i) EXPECT_EQ(writers[i].epoch, i + 1);
}

TEST_F(BoardTest, ARunIsDescribedByItsFirstSessionOnly) {
  board_.OpenWriter("r", "bf16");
  const std::string before = ReadFile(dir_ / "runs/r/run.json", 1000);
  EXPECT_THAT(before, ::testing::StartsWith(R"({"format":1,"run":"r","view":{"id":"bf16"},)"));
  EXPECT_EQ(board_.OpenWriter("r", "fp8").epoch, 2u);
  EXPECT_EQ(ReadFile(dir_ / "runs/r/run.json", 1000), before);
}

TEST_F(BoardTest, AMalformedWriterEntryIsNotTakenForOurs) {
  dir_.Write("runs/r/writers/000007.json", "{");
  ExpectError(
      ErrorCode::kCorrupt, [&] { board_.OpenWriter("r", "bf16", "id"); }, "000007.json");
  EXPECT_EQ(board_.OpenWriter("r", "bf16").epoch, 8u);
}

TEST_F(BoardTest, TheLastEpochIsTheLast) {
  dir_.Write("runs/r/writers/999998.json", "{}");
  const Writer last = board_.OpenWriter("r", "bf16");
  EXPECT_EQ(last.epoch, 999'999u);
  EXPECT_NO_THROW(board_.CheckWriter(last));
  ExpectError(
      ErrorCode::kInvalid, [&] { board_.OpenWriter("r", "bf16"); }, "999999");
}

TEST_F(BoardTest, OfTwoRacingCommitsExactlyOneWins) {
  const Writer writer = CommitVersions(0);
  for (VersionNumber version = 1; version <= 20; ++version) {
    std::latch start(2);
    std::atomic<int> wins = 0;
    std::atomic<int64_t> winner = -1;
    std::vector<std::jthread> threads;
    threads.reserve(2);
    for (int64_t step : {0, 1}) {
      threads.emplace_back([&, step] {
        const Manifest manifest = Version(writer, version, step);
        start.arrive_and_wait();
        try {
          board_.Commit(writer, manifest);
          ++wins, winner = step;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kConflict) << error.what();
        }
      });
    }
    threads.clear();
    EXPECT_EQ(wins, 1);
    EXPECT_EQ(board_.Read("r", version)->step, winner);
    EXPECT_EQ(board_.Head("r"), version);
  }
}

TEST_F(BoardTest, ACommittedVersionIsNeverReplaced) {
  const Writer writer = CommitVersions(1);
  ExpectError(
      ErrorCode::kConflict, [&] { board_.Commit(writer, Version(writer, 1, 9)); },
      "version 1 of run r", "another publisher");
  EXPECT_EQ(board_.Read("r", 1)->step, 0);
}

TEST_F(BoardTest, TheSameCommitAgainIsSuccess) {
  const Writer writer = CommitVersions(1);
  EXPECT_NO_THROW(board_.Commit(writer, Version(writer, 1)));
  EXPECT_EQ(board_.Head("r"), 1u);
}

TEST_F(BoardTest, ACommitWhoseAnswerGotLostIsReadBack) {
  const Writer writer = CommitVersions(1);
  script_.faults = {{"Create runs/r/log/0000000002.json", Fault::kDone}};
  EXPECT_NO_THROW(board_.Commit(writer, Version(writer, 2)));
  EXPECT_EQ(board_.Head("r"), 2u);
}

TEST_F(BoardTest, ACommitThatWasNotStoredFailsAndCanBeRepeated) {
  const Writer writer = CommitVersions(1);
  script_.faults = {{"Create runs/r/log/0000000002.json", Fault::kNotDone}};
  ExpectError(
      ErrorCode::kUnavailable, [&] { board_.Commit(writer, Version(writer, 2)); },
      "version 2 of run r", "injected");
  EXPECT_EQ(board_.Head("r"), 1u);
  EXPECT_NO_THROW(board_.Commit(writer, Version(writer, 2)));
  EXPECT_EQ(board_.Head("r"), 2u);
}

TEST_F(BoardTest, ACommitWhoseReadBackFailsTooCanBeRepeated) {
  const Writer writer = CommitVersions(1);
  script_.faults = {{"Create runs/r/log/0000000002.json", Fault::kDone},
                    {"Get runs/r/log/0000000002.json", Fault::kNotDone}};
  ExpectError(ErrorCode::kUnavailable, [&] { board_.Commit(writer, Version(writer, 2)); });
  EXPECT_NO_THROW(board_.Commit(writer, Version(writer, 2)));
}

TEST_F(BoardTest, ALostAnswerBehindWhichSomebodyElseWonIsAConflict) {
  const Writer writer = CommitVersions(1);
  dir_.Write("runs/r/log/0000000002.json", Version(writer, 2, 9).Serialize());
  script_.faults = {{"Create runs/r/log/0000000002.json", Fault::kNotDone}};
  ExpectError(ErrorCode::kConflict, [&] { board_.Commit(writer, Version(writer, 2)); });
  EXPECT_EQ(board_.Read("r", 2)->step, 9);
}

TEST_F(BoardTest, AHintThatCannotBeWrittenDoesNotFailTheCommit) {
  const Writer writer = CommitVersions(1);
  script_.faults = {{"Put runs/r/head.json", Fault::kNotDone}};
  EXPECT_NO_THROW(board_.Commit(writer, Version(writer, 2)));
  EXPECT_EQ(board_.Head("r"), 2u);
}

TEST_F(BoardTest, WhatMustNotStandForEverIsRefusedBeforeItIsStored) {
  const Writer writer = CommitVersions(1);
  Manifest manifest = Version(writer, 2);
  manifest.meta["note"] = "\xFF";  // not UTF-8
  ExpectError(
      ErrorCode::kInvalid, [&] { board_.Commit(writer, manifest); }, "version 2 of run r");
  ExpectError(
      ErrorCode::kInvalid, [&] { board_.Commit(writer, Version(writer, 3)); },
      "version 2 does not exist");
  manifest = Version(writer, 2);
  manifest.epoch = 2;
  ExpectError(ErrorCode::kInternal, [&] { board_.Commit(writer, manifest); });
  manifest = Version(writer, 2);
  manifest.run = "other";
  ExpectError(ErrorCode::kInternal, [&] { board_.Commit(writer, manifest); });
  EXPECT_EQ(board_.Head("r"), 1u);
}

TEST_F(BoardTest, ARevokedVersionStaysRevoked) {
  CommitVersions(3);
  EXPECT_TRUE(board_.Revoked("r").empty());
  EXPECT_EQ(board_.Newest("r"), 3u);
  board_.Revoke("r", 2, "NaN in layer 3");
  board_.Revoke("r", 2, "again");
  board_.Revoke("r", 3, "");
  EXPECT_EQ(board_.Revoked("r"), (std::vector<VersionNumber>{2, 3}));
  EXPECT_TRUE(board_.Revoked("other").empty());
  EXPECT_EQ(board_.Head("r"), 3u);
  EXPECT_EQ(board_.Newest("r"), 1u);
  EXPECT_TRUE(board_.Read("r", 2));
  for (VersionNumber missing : {VersionNumber{0}, VersionNumber{4}, board::kMaxVersion + 1}) {
    ExpectError(
        ErrorCode::kNotFound, [&] { board_.Revoke("r", missing, ""); }, "no such version");
  }
  ExpectError(
      ErrorCode::kInvalid, [&] { board_.Revoke("r", 1, "a\nb"); }, "one line");
  ExpectError(
      ErrorCode::kInvalid, [&] { board_.Revoke("r", 1, std::string(1001, 'x')); }, "1001");
}

TEST(PartKeyTest, FollowsTheLayout) {
  EXPECT_EQ(Board::PartKey("grpo-7", 42, "0f", "0.part"), "runs/grpo-7/data/42/0f/0.part");
  ExpectError(
      ErrorCode::kInvalid, [] { Board::PartKey("r", 1, "0f", "../x"); }, "key");
  ExpectError(
      ErrorCode::kInvalid, [] { Board::PartKey("r", 1, "", "x"); }, "key");
}

}  // namespace
}  // namespace isthmus::board
