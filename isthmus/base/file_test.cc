#include "isthmus/base/file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

#include "isthmus/base/random.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus {
namespace {

using testing::ExpectError;
using testing::TempDir;

constexpr uint64_t kAny = 1 << 30;

std::string RandomText(size_t bytes) {
  std::string text(bytes, '\0');
  SystemRandom().Fill({reinterpret_cast<std::byte*>(text.data()), text.size()});
  return text;
}

std::vector<std::string> Names(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

using Strings = std::vector<std::string>;

TEST(FileTest, WritesAppendAndReadsAreByOffset) {
  const TempDir dir;
  File file = File::Create(dir / "f");
  file.Write(AsBytes("hello "));
  file.Write(AsBytes("world"));
  file.WriteAt(0, AsBytes("J"));
  EXPECT_EQ(file.Size(), 11u);
  EXPECT_EQ(ReadFile(dir / "f", kAny), "Jello world");
  ByteVector bytes(5);
  file.ReadAt(6, bytes);
  EXPECT_EQ(AsText(bytes), "world");
}

TEST(FileTest, ReadingPastTheEndIsCorrupt) {
  const TempDir dir;
  dir.Write("f", "12345");
  ByteVector bytes(4);
  ExpectError(
      ErrorCode::kCorrupt, [&] { File::OpenRead(dir / "f").ReadAt(3, bytes); },
      (dir / "f").string(), "byte 5", "2 more");
}

TEST(FileTest, CreateEmptiesAnExistingFileAndCreateNewRefusesIt) {
  const TempDir dir;
  dir.Write("f", "old");
  ExpectError(
      ErrorCode::kConflict, [&] { File::CreateNew(dir / "f"); }, (dir / "f").string(), "exists");
  EXPECT_EQ(ReadFile(dir / "f", kAny), "old");
  File::Create(dir / "f");
  EXPECT_EQ(ReadFile(dir / "f", kAny), "");
}

TEST(FileTest, OpeningWhatDoesNotExistIsNotFound) {
  const TempDir dir;
  const std::string name = dir / "none";
  ExpectError(
      ErrorCode::kNotFound, [&] { File::OpenRead(name); }, name);
  ExpectError(
      ErrorCode::kNotFound, [&] { File::OpenReadWrite(name); }, name);
  ExpectError(
      ErrorCode::kNotFound, [&] { ReadFile(name, kAny); }, name);
}

TEST(FileTest, ADirectoryIsNotReadAsAFile) {
  const TempDir dir;
  ExpectError(
      ErrorCode::kInvalid, [&] { ReadFile(dir.path(), kAny); }, "not a regular file");
}

TEST(FileTest, MovedFilesKeepTheirDescriptor) {
  const TempDir dir;
  File first = File::Create(dir / "a");
  File second = std::move(first);
  second.Write(AsBytes("x"));
  File third = File::Create(dir / "b");
  third = std::move(second);
  third.Write(AsBytes("y"));
  EXPECT_EQ(ReadFile(dir / "a", kAny), "xy");
}

TEST(ReadFileTest, RefusesFilesOverTheLimit) {
  const TempDir dir;
  dir.Write("f", "12345");
  EXPECT_EQ(ReadFile(dir / "f", 5), "12345");
  ExpectError(
      ErrorCode::kCorrupt, [&] { ReadFile(dir / "f", 4); }, (dir / "f").string(), "5 bytes",
      "at most 4");
}

TEST(WriteFileAtomicTest, CreatesAndReplacesAndLeavesNothingElse) {
  const TempDir dir;
  WriteFileAtomic(dir / "f", AsBytes("one"));
  EXPECT_EQ(ReadFile(dir / "f", kAny), "one");
  WriteFileAtomic(dir / "f", AsBytes("two, longer"));
  EXPECT_EQ(ReadFile(dir / "f", kAny), "two, longer");
  WriteFileAtomic(dir / "f", {});
  EXPECT_EQ(ReadFile(dir / "f", kAny), "");
  EXPECT_EQ(Names(dir.path()), Strings{"f"});
}

TEST(WriteFileAtomicTest, AReaderOfTheOldFileKeepsTheOldContent) {
  const TempDir dir;
  dir.Write("f", "old");
  const File old = File::OpenRead(dir / "f");
  WriteFileAtomic(dir / "f", AsBytes("new"));
  ByteVector bytes(3);
  old.ReadAt(0, bytes);
  EXPECT_EQ(AsText(bytes), "old");
}

TEST(WriteFileAtomicTest, FailsWithoutTheDirectoryAndLeavesNothing) {
  const TempDir dir;
  ExpectError(
      ErrorCode::kNotFound, [&] { WriteFileAtomic(dir / "none/f", AsBytes("x")); }, "none");
  fs::create_directory(dir / "f");
  ExpectError(
      ErrorCode::kInvalid, [&] { WriteFileAtomic(dir / "f", AsBytes("x")); }, "replace");
  EXPECT_EQ(Names(dir.path()), Strings{"f"});
}

TEST(CreateFileIfAbsentTest, TheSecondCallChangesNothing) {
  const TempDir dir;
  EXPECT_TRUE(CreateFileIfAbsent(dir / "f", AsBytes("first")));
  EXPECT_FALSE(CreateFileIfAbsent(dir / "f", AsBytes("second")));
  EXPECT_EQ(ReadFile(dir / "f", kAny), "first");
  EXPECT_EQ(Names(dir.path()), Strings{"f"});
}

TEST(CreateFileIfAbsentTest, OfRacingThreadsExactlyOneWinsAndItsContentIsWhole) {
  constexpr size_t kThreads = 16;
  constexpr int kRounds = 50;
  const TempDir dir;
  for (int round = 0; round < kRounds; ++round) {
    const fs::path path = dir / fmt::format("log-{}", round);
    std::latch start(kThreads);
    std::atomic<int> wins = 0;
    std::atomic<size_t> winner = 0;
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const std::string content(10'000, static_cast<char>('a' + i));
        start.arrive_and_wait();
        if (CreateFileIfAbsent(path, AsBytes(content))) {
          ++wins;
          winner = i;
        }
        // Winner or not: whoever comes after the call sees one whole content.
        const std::string seen = ReadFile(path, kAny);
        EXPECT_EQ(seen, std::string(10'000, seen[0]));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wins, 1);
    EXPECT_EQ(ReadFile(path, kAny), std::string(10'000, static_cast<char>('a' + winner)));
  }
  EXPECT_EQ(Names(dir.path()).size(), size_t{kRounds});
}

TEST(CopyFileTest, CopiesEverySize) {
  const TempDir dir;
  for (size_t size : {size_t{0}, size_t{1}, size_t{4096}, (size_t{17} << 20) + 3}) {
    const std::string content = RandomText(size);
    dir.Write("from", content);
    uint64_t told = 0;
    EXPECT_EQ(CopyFile(dir / "from", dir / "to", true, [&](uint64_t bytes) { told += bytes; }),
              size);
    EXPECT_EQ(told, size);
    EXPECT_EQ(ReadFile(dir / "to", kAny), content);
    EXPECT_EQ(ReadFile(dir / "from", kAny), content);
  }
}

TEST(CopyFileTest, ReplacesALongerFile) {
  const TempDir dir;
  dir.Write("from", "short");
  dir.Write("to", "much longer than before");
  EXPECT_EQ(CopyFile(dir / "from", dir / "to", false), 5u);
  EXPECT_EQ(ReadFile(dir / "to", kAny), "short");
}

TEST(CopyFileTest, CopiesToAnotherFileSystem) {
  // Sharing extents is impossible there, and before Linux 5.19 so is a copy inside the kernel.
  if (!fs::is_directory("/dev/shm")) GTEST_SKIP() << "no second file system";
  const TempDir dir;
  const fs::path other = fs::path("/dev/shm") / fmt::format("isthmus-test-{}", RandomId());
  const std::string content = RandomText((size_t{2} << 20) + 5);
  dir.Write("from", content);
  EXPECT_EQ(CopyFile(dir / "from", other, false), content.size());
  EXPECT_EQ(ReadFile(other, kAny), content);
  RemoveFile(other);
}

TEST(CopyFileTest, AMissingSourceCreatesNoTarget) {
  const TempDir dir;
  ExpectError(
      ErrorCode::kNotFound, [&] { CopyFile(dir / "none", dir / "to", false); }, "none");
  EXPECT_FALSE(fs::exists(dir / "to"));
}

TEST(DigestFileTest, GivesSizeAndSha256) {
  const TempDir dir;
  for (size_t size : {size_t{0}, size_t{3}, size_t{1} << 20, (size_t{5} << 19) + 1}) {
    const std::string content = RandomText(size);
    dir.Write("f", content);
    uint64_t told = 0;
    const FileDigest digest = DigestFile(dir / "f", [&](uint64_t bytes) { told += bytes; });
    EXPECT_EQ(digest.bytes, size);
    EXPECT_EQ(digest.sha256, Sha256(AsBytes(content)));
    EXPECT_EQ(told, size);
  }
}

TEST(CreateDirectoriesTest, CreatesTheWholePathAndAcceptsWhatExists) {
  const TempDir dir;
  CreateDirectories(dir / "a/b/c");
  EXPECT_TRUE(fs::is_directory(dir / "a/b/c"));
  CreateDirectories(dir / "a/b/c");
  CreateDirectories(dir / "a/d/");
  EXPECT_TRUE(fs::is_directory(dir / "a/d"));
}

TEST(CreateDirectoriesTest, RefusesAPathThroughAFile) {
  const TempDir dir;
  dir.Write("f", "x");
  ExpectError(
      ErrorCode::kInvalid, [&] { CreateDirectories(dir / "f/g"); }, "f/g");
}

TEST(RemoveFileTest, AcceptsThatTheFileIsGone) {
  const TempDir dir;
  dir.Write("f", "x");
  RemoveFile(dir / "f");
  RemoveFile(dir / "f");
  EXPECT_EQ(Names(dir.path()), Strings{});
}

TEST(FileLockTest, TheSecondLockConflictsUntilTheFirstIsGone) {
  const TempDir dir;
  std::optional<FileLock> first(std::in_place, dir / "lock", "replica /r");
  ExpectError(
      ErrorCode::kConflict, [&] { FileLock(dir / "lock", "replica /r"); }, "replica /r");
  first.reset();
  const FileLock second(dir / "lock", "replica /r");
}

TEST(FileLockTest, LeavesTheContentOfTheFileAlone) {
  const TempDir dir;
  dir.Write("lock", "pid 7");
  const FileLock lock(dir / "lock", "it");
  EXPECT_EQ(ReadFile(dir / "lock", kAny), "pid 7");
}

}  // namespace
}  // namespace isthmus
