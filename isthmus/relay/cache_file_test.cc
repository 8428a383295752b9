#include "isthmus/relay/cache_file.h"

#include <gtest/gtest.h>

#include "isthmus/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::relay {
namespace {

class CacheFileTest : public ::testing::Test {
 protected:
  // Pieces are written from the last to the first: they may come in any order.
  fs::path Make(const std::string& key, const std::string& content) {
    CacheFileWriter writer(dir_ / "temporary", key, content.size());
    writer.Create();
    for (size_t piece = writer.pieces(); piece-- > 0;) {
      writer.Write(piece, AsBytes(content).subspan(piece * kPieceBytes, writer.piece_bytes(piece)));
    }
    writer.Seal(dir_ / "file");
    return dir_ / "file";
  }
  static void Flip(const fs::path& file, uint64_t offset) {
    const File open = File::OpenReadWrite(file);
    std::byte byte;
    open.ReadAt(offset, {&byte, 1});
    byte ^= std::byte{1};
    open.WriteAt(offset, {&byte, 1});
  }

  testing::TempDir dir_;
};

TEST_F(CacheFileTest, AFileSaysWhichObjectItIsAndThatItIsSound) {
  for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, kPieceBytes, kPieceBytes + 1, 2 * kPieceBytes}) {
    std::string content(bytes, 'x');
    if (bytes > 0) content.back() = 'y';
    const fs::path path = Make("runs/r/data/1/a", content);
    const File file = File::OpenRead(path);
    const auto tail = ReadCacheFileTail(file);
    ASSERT_TRUE(tail) << bytes;
    EXPECT_EQ(tail->key, "runs/r/data/1/a");
    EXPECT_EQ(tail->object_bytes, bytes);
    EXPECT_TRUE(CacheFileIsSound(file));
    EXPECT_EQ(ReadFile(path, kPieceBytes * 3).substr(0, bytes), content);
    EXPECT_LE(file.Size(), CacheFileBytes(tail->key, bytes));
    EXPECT_FALSE(Exists(dir_ / "temporary"));
  }
}

TEST_F(CacheFileTest, EveryFlippedBitIsFound) {
  const fs::path path = Make("key", "content of an object");
  const uint64_t size = File::OpenRead(path).Size();
  for (uint64_t at = 0; at < size; ++at) {
    Flip(path, at);
    EXPECT_FALSE(CacheFileIsSound(File::OpenRead(path))) << "byte " << at;
    Flip(path, at);
  }
  EXPECT_TRUE(CacheFileIsSound(File::OpenRead(path)));
}

TEST_F(CacheFileTest, EveryTruncationIsSeenInTheTail) {
  const std::string whole = ReadFile(Make("key", "content of an object"), 1000);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const fs::path path = dir_.Write("short", whole.substr(0, bytes));
    EXPECT_FALSE(ReadCacheFileTail(File::OpenRead(path))) << bytes;
  }
  EXPECT_FALSE(ReadCacheFileTail(File::OpenRead(dir_.Write("zeros", std::string(5000, '\0')))));
}

TEST_F(CacheFileTest, WhatWasNotSealedIsRemoved) {
  {
    CacheFileWriter writer(dir_ / "temporary", "key", 10);
    writer.Create();
    EXPECT_TRUE(Exists(dir_ / "temporary"));
  }
  EXPECT_FALSE(Exists(dir_ / "temporary"));
}

TEST_F(CacheFileTest, ADiskWithoutRoomIsToldBeforeAnythingIsFetched) {
  // 16 TiB, which no disk of a test has free.
  CacheFileWriter writer(dir_ / "temporary", "key", uint64_t{1} << 44);
  testing::ExpectError(
      ErrorCode::kUnavailable, [&] { writer.Create(); }, "temporary");
}

TEST(CacheFileBytesTest, SizesAreWholeBlocksAndNeverWrapAround) {
  EXPECT_EQ(CacheFileBytes("key", 0), 4096u);
  EXPECT_EQ(CacheFileBytes("key", 4096), 8192u);
  EXPECT_GT(CacheFileBytes("key", ~uint64_t{0}), 0u);
}

}  // namespace
}  // namespace isthmus::relay
