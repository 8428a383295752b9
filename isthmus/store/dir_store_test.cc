#include "isthmus/store/dir_store.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/conformance/store.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::store {
namespace {

using testing::ExpectError;
using testing::TempDir;

using Keys = std::vector<std::string>;

struct DirHarness {
  // A root that does not exist yet: the first write makes it.
  std::unique_ptr<Store> Open() const {
    return std::make_unique<DirStore>(directory / "deep/root");
  }
  TempDir directory;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Dir, StoreConformance, DirHarness);

// Every file below a directory, hidden ones too.
Keys FilesBelow(const fs::path& directory) {
  Keys files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_directory()) files.push_back(entry.path().lexically_relative(directory));
  }
  std::ranges::sort(files);
  return files;
}

TEST(DirStoreTest, ObjectsAreFilesAndNothingElseIsLeftBehind) {
  const TempDir dir;
  const TempDir local;
  DirStore store(dir.path());
  store.Put("a/put", AsBytes("1"));
  store.Put("a/put", AsBytes("2"));
  store.PutFile("a/file", local.Write("f", "3"), {});
  store.Create("a/created", AsBytes("4"));
  store.Create("a/created", AsBytes("5"));
  EXPECT_THROW(store.PutFile("a/file", local / "none", {}), Error);
  EXPECT_EQ(FilesBelow(dir.path()), (Keys{"a/created", "a/file", "a/put"}));
  EXPECT_EQ(ReadFile(dir / "a/put", 10), "2");
}

TEST(DirStoreTest, WhatACrashLeftBehindIsNoObject) {
  const TempDir dir;
  DirStore store(dir.path());
  store.Put("log/2.json", AsBytes("whole"));
  dir.Write("log/.3.json.tmp-0011223344556677", "par");
  dir.Write(".hidden/k", "x");
  EXPECT_EQ(store.List(""), Keys{"log/2.json"});
  EXPECT_EQ(store.List("log/"), Keys{"log/2.json"});
  EXPECT_EQ(store.List("log/."), Keys{});
  EXPECT_TRUE(store.Create("log/3.json", AsBytes("whole")));
}

TEST(DirStoreTest, ForeignFilesAreNoObjects) {
  const TempDir dir;
  dir.Write("with space/k", "x");
  dir.Write("caf\xC3\xA9", "x");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  dir.Write("k", "x");
  DirStore store(dir.path());
  EXPECT_EQ(store.List(""), Keys{"k"});
  EXPECT_EQ(store.Get("pipe", 10), std::nullopt);  // and does not wait for a writer
}

TEST(DirStoreTest, ALoopOfLinksEnds) {
  const TempDir dir;
  dir.Write("a/k", "x");
  fs::create_directory_symlink("..", dir / "a/up");
  DirStore store(dir.path());
  const Keys keys = store.List("a/");
  EXPECT_EQ(keys.front(), "a/k");
  EXPECT_LT(keys.size(), 1024u);
}

// Tells whether directories were opened, by inotify.
class OpenWatch {
 public:
  explicit OpenWatch(const std::vector<fs::path>& directories) {
    for (const fs::path& path : directories) {
      EXPECT_GE(::inotify_add_watch(fd_, path.c_str(), IN_OPEN | IN_ONLYDIR), 0) << path;
    }
  }
  ~OpenWatch() { ::close(fd_); }
  OpenWatch(const OpenWatch&) = delete;
  OpenWatch& operator=(const OpenWatch&) = delete;

  bool SawOpen() const {
    alignas(inotify_event) char events[4096];
    return ::read(fd_, events, sizeof events) > 0;
  }

 private:
  int fd_ = ::inotify_init1(IN_NONBLOCK);
};

TEST(DirStoreTest, AListingReadsOnlyDirectoriesThatCanMatch) {
  const TempDir dir;
  DirStore store(dir.path());
  for (const char* key : {"runs/a/log/1.json", "runs/a/data/1/p", "runs/b/log/1.json"}) {
    store.Put(key, AsBytes("x"));
  }
  OpenWatch others({dir / "runs/a/data", dir / "runs/b"});
  EXPECT_EQ(store.List("runs/a/log/"), Keys{"runs/a/log/1.json"});
  EXPECT_EQ(store.List("runs/a/l"), Keys{"runs/a/log/1.json"});
  EXPECT_FALSE(others.SawOpen());
  EXPECT_EQ(store.List("runs/").size(), 3u);
  EXPECT_TRUE(others.SawOpen());
}

TEST(DirStoreTest, ADirectoryThatCannotBeWrittenGivesAnErrorAndNothingElse) {
  const TempDir dir;
  dir.Write("file", "content");
  DirStore store(dir / "file");  // below a regular file nothing can be created, not even by root
  const TempDir local;
  const fs::path source = local.Write("f", "x");
  ExpectError(
      ErrorCode::kInvalid, [&] { store.Put("a/k", AsBytes("x")); }, (dir / "file/a").string());
  ExpectError(ErrorCode::kInvalid, [&] { store.Create("k", AsBytes("x")); });
  ExpectError(ErrorCode::kInvalid, [&] { store.PutFile("k", source, {}); });
  EXPECT_EQ(store.Get("k", 10), std::nullopt);
  EXPECT_TRUE(store.List("").empty());
  EXPECT_EQ(FilesBelow(dir.path()), Keys{"file"});
  EXPECT_EQ(ReadFile(dir / "file", 10), "content");
}

// Root may write everywhere: this thread goes on as somebody else until the end of the scope.
class WithoutRoot {
 public:
  WithoutRoot() { Become(was_root_ ? kNobody : ::geteuid()); }
  ~WithoutRoot() { Become(was_root_ ? 0 : ::geteuid()); }
  WithoutRoot(const WithoutRoot&) = delete;
  WithoutRoot& operator=(const WithoutRoot&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  static void Become(uid_t user) { EXPECT_EQ(::seteuid(user), 0); }
  const bool was_root_ = ::geteuid() == 0;
};

TEST(DirStoreTest, ADirectoryWithoutPermissionGivesAnErrorAndNothingElse) {
  const WithoutRoot without_root;
  const TempDir dir;
  DirStore store(dir.path());
  store.Put("k", AsBytes("old"));
  fs::permissions(dir.path(), fs::perms::owner_read | fs::perms::owner_exec);
  ExpectError(ErrorCode::kInvalid, [&] { store.Put("k", AsBytes("new")); });
  ExpectError(ErrorCode::kInvalid, [&] { store.Create("other", AsBytes("new")); });
  EXPECT_EQ(store.Get("k", 10), "old");
  EXPECT_EQ(FilesBelow(dir.path()), Keys{"k"});
  fs::permissions(dir.path(), fs::perms::owner_all);
}

TEST(DirStoreTest, AKeyWhoseNameIsAFolderCannotBeAnObject) {
  const TempDir dir;
  DirStore store(dir.path());
  store.Put("a/k", AsBytes("x"));
  ExpectError(
      ErrorCode::kInvalid, [&] { store.Put("a", AsBytes("x")); }, (dir / "a").string());
  // link(2) finds the name taken, as Create promises.
  EXPECT_FALSE(store.Create("a", AsBytes("x")));
  EXPECT_EQ(FilesBelow(dir.path()), Keys{"a/k"});
}

TEST(DirStoreTest, ARangeBeyondAnObjectThatWasCutShortIsCorrupt) {
  const TempDir dir;
  DirStore store(dir.path());
  store.Put("k", AsBytes("0123456789"));
  fs::resize_file(dir / "k", 4);
  ExpectError(
      ErrorCode::kCorrupt, [&] { store.GetRange("k", 0, 10); }, "ends at byte 4");
}

}  // namespace
}  // namespace isthmus::store
