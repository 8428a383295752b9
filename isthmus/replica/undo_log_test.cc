#include "isthmus/replica/undo_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "isthmus/codec/old_units.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::replica {
namespace {

using ::isthmus::testing::ExpectError;
using ::isthmus::testing::TempDir;

class UndoLogTest : public ::testing::Test {
 protected:
  // A file of `units` units and a changed copy; records the change in ranges of `range_units`
  // units.
  void RecordChange(size_t unit_bytes, size_t units, unsigned one_in, std::mt19937* random,
                    size_t range_units = 100) {
    old_.assign(units * unit_bytes, '\0');
    for (char& c : old_) c = static_cast<char>((*random)());
    new_ = old_;
    for (char& c : new_) {
      if ((*random)() % one_in == 0) c = static_cast<char>(c ^ 1);
    }
    UndoLog log(dir_ / "undo");
    const size_t range_bytes = range_units * unit_bytes;
    for (size_t at = 0; at < old_.size(); at += range_bytes) {
      const size_t size = std::min(range_bytes, old_.size() - at);
      const ByteSpan after = AsBytes(new_).subspan(at, size);
      codec::OldUnits old;
      old.Compare(AsBytes(old_).subspan(at, size), after, unit_bytes);
      std::vector<codec::OldUnit> changes(old.list().begin(), old.list().end());
      for (codec::OldUnit& change : changes) change.position += kFirst;
      std::ranges::shuffle(changes, *random);
      log.RecordUnits("file", at, unit_bytes, after, changes, kFirst);
    }
  }

  std::string Content() const { return ReadFile(dir_ / "file", 1 << 20); }

  static constexpr uint32_t kFirst = 5;  // unit of the chunk at which a range begins

  TempDir dir_;
  std::string old_;
  std::string new_;
};

TEST_F(UndoLogTest, TakesBackAnyPartOfAChangeAnyNumberOfTimes) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const size_t unit_bytes : {1, 2, 4}) {
    for (const unsigned one_in : {1U, 3U, 50U}) {
      RecordChange(unit_bytes, 777, one_in, &random);
      // A crash may have left any mixture of old and new bytes.
      std::string mixture = old_;
      for (size_t i = 0; i < mixture.size(); ++i) {
        if (random() % 2 == 0) mixture[i] = new_[i];
      }
      dir_.Write("file", mixture);
      EXPECT_GT(UndoLog::Replay(dir_ / "undo", dir_.path()), 0U);
      ASSERT_EQ(Content(), old_);
      UndoLog::Replay(dir_ / "undo", dir_.path());
      ASSERT_EQ(Content(), old_);
    }
  }
}

TEST_F(UndoLogTest, ARangeOfAWholeChunkComesBack) {
  std::mt19937 random(2);
  for (const unsigned one_in : {2U, 100U}) {
    RecordChange(1, 300'000, one_in, &random, 300'000);
    dir_.Write("file", new_);
    EXPECT_EQ(UndoLog::Replay(dir_ / "undo", dir_.path()), 1U);
    ASSERT_EQ(Content(), old_);
  }
}

TEST_F(UndoLogTest, ALogCutShortTakesBackItsWholeRecords) {
  std::mt19937 random(1);
  RecordChange(2, 300, 4, &random);  // three ranges
  const std::string whole = ReadFile(dir_ / "undo", 1 << 20);
  uint64_t most_records = 0;
  for (size_t size = 0; size <= whole.size(); ++size) {
    dir_.Write("undo", whole.substr(0, size));
    // The ranges whose records are whole were changed, the others not yet.
    dir_.Write("file", old_);
    const uint64_t records = UndoLog::Replay(dir_ / "undo", dir_.path());
    ASSERT_GE(records, most_records);
    most_records = records;
    ASSERT_EQ(Content(), old_);
  }
  EXPECT_EQ(most_records, 3U);
}

TEST_F(UndoLogTest, FilesComeBackAndNewOnesGo) {
  {
    UndoLog log(dir_ / "undo");
    log.RecordFile("changed", "before");
    log.RecordFile("sub/removed", "was here");
    log.RecordFile("sub2/added", std::nullopt);
    log.RecordBytes("changed-bytes", 2, AsBytes("cd"));
  }
  dir_.Write("changed", "after");
  dir_.Write("sub2/added", "new");
  dir_.Write("changed-bytes", "abXXef");
  EXPECT_EQ(UndoLog::Replay(dir_ / "undo", dir_.path()), 4U);
  EXPECT_EQ(ReadFile(dir_ / "changed", 100), "before");
  EXPECT_EQ(ReadFile(dir_ / "sub/removed", 100), "was here");
  EXPECT_FALSE(Exists(dir_ / "sub2"));
  EXPECT_EQ(ReadFile(dir_ / "changed-bytes", 100), "abcdef");
}

TEST_F(UndoLogTest, RecordsThatNameOtherPlacesAreRefused) {
  dir_.Write("inside/file", "abcd");
  for (const std::string name : {"../outside", "/etc/hostname", "a/../../b", ".hidden"}) {
    UndoLog(dir_ / "undo").RecordFile(name, "written by the log");
    ExpectError(
        ErrorCode::kCorrupt, [&] { UndoLog::Replay(dir_ / "undo", dir_ / "inside"); },
        "not a file of a checkpoint");
  }
  EXPECT_FALSE(Exists(dir_ / "outside"));
  UndoLog(dir_ / "undo").RecordBytes("file", 2, AsBytes("xyz"));
  ExpectError(
      ErrorCode::kCorrupt, [&] { UndoLog::Replay(dir_ / "undo", dir_ / "inside"); },
      "3 bytes at 2, the file has 4");
}

TEST_F(UndoLogTest, AfterARecordThatCouldNotBeWrittenNoneFollows) {
  UndoLog log("/dev/full");
  const auto record = [&log] { log.RecordBytes("file", 0, AsBytes("old")); };
  ExpectError(ErrorCode::kUnavailable, record, "/dev/full");
  ExpectError(ErrorCode::kUnavailable, record, "failed before");
}

TEST_F(UndoLogTest, WithoutALogThereIsNothingToTakeBack) {
  EXPECT_EQ(UndoLog::Replay(dir_ / "undo", dir_.path()), 0U);
}

}  // namespace
}  // namespace isthmus::replica
