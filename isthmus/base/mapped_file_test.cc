#include "isthmus/base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus {
namespace {

using testing::ExpectError;
using testing::TempDir;

const size_t kPage = static_cast<size_t>(::sysconf(_SC_PAGESIZE));

// Reads one byte of each page, as the compiler must.
size_t CountNonZeroPages(ByteSpan bytes) {
  size_t count = 0;
  for (size_t at = 0; at < bytes.size(); at += kPage) {
    const volatile std::byte* byte = &bytes[at];
    count += *byte != std::byte{0} ? 1 : 0;
  }
  return count;
}

TEST(MappedFileTest, ShowsTheFile) {
  const TempDir dir;
  const MappedFile map(dir.Write("f", "hello"), Access::kRead);
  EXPECT_EQ(AsText(map.bytes()), "hello");
  EXPECT_EQ(map.path(), dir / "f");
  map.CheckIntact();
}

TEST(MappedFileTest, AnEmptyFileIsAnEmptyMapping) {
  const TempDir dir;
  for (Access access : {Access::kRead, Access::kReadWrite}) {
    const MappedFile map(dir.Write("f", ""), access);
    EXPECT_TRUE(map.bytes().empty());
    map.CheckIntact();
  }
}

TEST(MappedFileTest, WritesReachTheFile) {
  const TempDir dir;
  dir.Write("f", "hello");
  {
    const MappedFile map(dir / "f", Access::kReadWrite);
    map.writable()[0] = std::byte{'J'};
    EXPECT_EQ(AsText(map.bytes()), "Jello");
    EXPECT_EQ(ReadFile(dir / "f", 100), "Jello");
  }
  EXPECT_EQ(ReadFile(dir / "f", 100), "Jello");
}

TEST(MappedFileTest, AMappingForReadingGivesNoWritableBytes) {
  const TempDir dir;
  const MappedFile map(dir.Write("f", "hello"), Access::kRead);
  ExpectError(
      ErrorCode::kInternal, [&] { map.writable(); }, (dir / "f").string());
}

TEST(MappedFileTest, MissingFilesAndDirectoriesAreRefused) {
  const TempDir dir;
  ExpectError(
      ErrorCode::kNotFound, [&] { MappedFile(dir / "none", Access::kRead); }, "none");
  ExpectError(ErrorCode::kInvalid, [&] { MappedFile(dir.path(), Access::kRead); });
  ExpectError(ErrorCode::kInvalid, [&] { MappedFile(dir.path(), Access::kReadWrite); });
}

TEST(MappedFileTest, MovedMappingsStayValid) {
  const TempDir dir;
  MappedFile first(dir.Write("a", "aaa"), Access::kRead);
  MappedFile second(dir.Write("b", "bbb"), Access::kRead);
  const MappedFile third = std::move(first);
  EXPECT_EQ(AsText(third.bytes()), "aaa");
  first = std::move(second);
  EXPECT_EQ(AsText(first.bytes()), "bbb");
}

TEST(MappedFileTest, AFileCutUnderTheMappingIsCorruptAndReadsAsZeros) {
  const TempDir dir;
  const MappedFile map(dir.Write("f", std::string(8 * kPage, 'x')), Access::kRead);
  const MappedFile other(dir.Write("g", std::string(kPage, 'y')), Access::kRead);
  EXPECT_EQ(CountNonZeroPages(map.bytes()), 8u);
  fs::resize_file(dir / "f", 3 * kPage);
  map.CheckIntact();  // nothing that was lost has been touched
  EXPECT_EQ(CountNonZeroPages(map.bytes()), 3u);
  ExpectError(
      ErrorCode::kCorrupt, [&] { map.CheckIntact(); }, (dir / "f").string());
  other.CheckIntact();
}

TEST(MappedFileTest, WritesBeyondACutFileAreCorrupt) {
  const TempDir dir;
  const MappedFile map(dir.Write("f", std::string(4 * kPage, 'x')), Access::kReadWrite);
  fs::resize_file(dir / "f", 0);
  map.writable()[2 * kPage] = std::byte{1};
  ExpectError(
      ErrorCode::kCorrupt, [&] { map.CheckIntact(); }, (dir / "f").string());
  EXPECT_EQ(fs::file_size(dir / "f"), 0u);
}

TEST(MappedFileTest, ALostMappingDoesNotTaintTheNextOne) {
  const TempDir dir;
  {
    const MappedFile map(dir.Write("f", std::string(kPage, 'x')), Access::kRead);
    fs::resize_file(dir / "f", 0);
    EXPECT_EQ(CountNonZeroPages(map.bytes()), 0u);
    ExpectError(ErrorCode::kCorrupt, [&] { map.CheckIntact(); });
  }
  const MappedFile next(dir.Write("g", std::string(kPage, 'y')), Access::kRead);
  EXPECT_EQ(CountNonZeroPages(next.bytes()), 1u);
  next.CheckIntact();
}

TEST(MappedFileDeathTest, AFaultOutsideOfMappingsStillKills) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto fault = [] {
    const TempDir dir;
    const MappedFile installs_the_handler(dir.Write("f", "x"), Access::kRead);
    const File file = File::OpenRead(dir.Write("g", "y"));
    const void* foreign = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file.fd(), 0);
    fs::resize_file(dir / "g", 0);
    const volatile char* byte = static_cast<const volatile char*>(foreign);
    ::exit(*byte);
  };
  EXPECT_DEATH(fault(), "");
}

}  // namespace
}  // namespace isthmus
