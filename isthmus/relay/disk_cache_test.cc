#include "isthmus/relay/disk_cache.h"

#include <gtest/gtest.h>

#include "isthmus/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::relay {
namespace {

constexpr uint64_t kBlock = 4096;  // what each small object here takes

class DiskCacheTest : public ::testing::Test {
 protected:
  void Open(uint64_t limit_blocks = 10) {
    cache_.reset();
    cache_ = std::make_shared<DiskCache>(dir_ / "cache", limit_blocks * kBlock);
  }
  bool Put(const std::string& key, const std::string& content) {
    const std::shared_ptr<Deposit> deposit = cache_->Reserve(key, content.size());
    if (!deposit) return false;
    deposit->Begin();
    if (!content.empty()) deposit->writer().Write(0, AsBytes(content));
    deposit->Seal();
    cache_->Keep(*deposit);
    return true;
  }
  static std::string Read(const DiskCache::Found& found) {
    std::string content(found.bytes, '\0');
    found.file->ReadAt(0, {reinterpret_cast<std::byte*>(content.data()), content.size()});
    return content;
  }
  std::optional<std::string> Get(const std::string& key) {
    const auto found = cache_->Find(key);
    return found ? std::optional(Read(*found)) : std::nullopt;
  }
  size_t Files(const char* folder) {
    const fs::directory_iterator begin(dir_ / "cache" / folder);
    return static_cast<size_t>(std::distance(begin, fs::directory_iterator()));
  }
  fs::path OnlyFile() { return fs::directory_iterator(dir_ / "cache" / "objects")->path(); }

  testing::TempDir dir_;
  std::shared_ptr<DiskCache> cache_;
};

TEST_F(DiskCacheTest, WhatIsKeptIsFoundAlsoAfterARestart) {
  Open();
  EXPECT_EQ(Get("a"), std::nullopt);
  ASSERT_TRUE(Put("a", "content"));
  ASSERT_TRUE(Put("empty", ""));
  EXPECT_TRUE(cache_->Find("a")->proven);
  EXPECT_EQ(Get("a"), "content");
  EXPECT_EQ(Get("empty"), "");
  Open();
  EXPECT_EQ(Get("a"), "content");
  EXPECT_EQ(Get("empty"), "");
  EXPECT_FALSE(cache_->Find("a")->proven);
  cache_->SetProven("a");
  EXPECT_TRUE(cache_->Find("a")->proven);
  EXPECT_EQ(cache_->index().used_bytes(), 2 * kBlock);
}

TEST_F(DiskCacheTest, WhatWasNotKeptLeavesNothing) {
  Open();
  {
    const auto deposit = cache_->Reserve("a", 100);
    deposit->Begin();
    EXPECT_EQ(cache_->index().used_bytes(), kBlock);
    EXPECT_EQ(Files("unfinished"), 1u);
  }
  EXPECT_EQ(cache_->index().used_bytes(), 0u);
  EXPECT_EQ(Files("unfinished"), 0u);
  EXPECT_EQ(Get("a"), std::nullopt);
}

TEST_F(DiskCacheTest, EvictedObjectsGoButWhoReadsThemReadsOn) {
  Open(2);
  Put("a", "first");
  const auto reading = cache_->Find("a");
  Put("b", "second");
  EXPECT_TRUE(Put("c", "third"));
  EXPECT_EQ(Get("b"), std::nullopt);
  EXPECT_EQ(Get("a"), "first");
  cache_->Drop("a");
  EXPECT_EQ(Read(*reading), "first");
  EXPECT_EQ(Files("objects"), 1u);
}

TEST_F(DiskCacheTest, WithoutRoomThereIsNoDeposit) {
  Open(2);
  EXPECT_FALSE(Put("large", std::string(2 * kBlock, 'x')));
  Put("a", "1");
  Put("b", "2");
  const auto a = cache_->Find("a");
  const auto b = cache_->Find("b");
  EXPECT_FALSE(Put("c", "3"));
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(DiskCacheTest, ASmallerLimitKeepsTheNewest) {
  Open(3);
  for (const char* key : {"a", "b", "c"}) {
    Put(key, key);
    // The clock of some file systems ticks a few times a second only: what was written when is said
    // here.
    static int seconds = 0;
    fs::last_write_time(cache_->Find(key)->file->path(),
                        fs::file_time_type() + std::chrono::seconds(++seconds));
  }
  Open(2);
  EXPECT_EQ(Get("a"), std::nullopt);
  EXPECT_EQ(Get("b"), "b");
  EXPECT_EQ(Get("c"), "c");
  EXPECT_EQ(Files("objects"), 2u);
}

TEST_F(DiskCacheTest, ARestartRemovesWhatIsUnfinishedOrNoObject) {
  Open();
  Put("a", "content");
  cache_.reset();
  fs::resize_file(OnlyFile(), 5);
  dir_.Write("cache/objects/b", "something else");
  dir_.Write("cache/unfinished/c", "half");
  Open();
  EXPECT_EQ(Get("a"), std::nullopt);
  EXPECT_EQ(Files("objects"), 0u);
  EXPECT_EQ(Files("unfinished"), 0u);
  EXPECT_EQ(cache_->index().used_bytes(), 0u);
}

TEST_F(DiskCacheTest, AFileThatSomebodyRemovedIsAMiss) {
  Open();
  Put("a", "content");
  fs::remove(OnlyFile());
  EXPECT_EQ(Get("a"), std::nullopt);
  EXPECT_TRUE(Put("a", "again"));
  EXPECT_EQ(Get("a"), "again");
}

TEST_F(DiskCacheTest, AnotherBoardBeginsWithAnEmptyCache) {
  Open();
  EXPECT_EQ(cache_->board(), "");
  cache_->BelongTo("uuid-1");
  Put("a", "content");
  cache_->BelongTo("uuid-1");
  Open();
  EXPECT_EQ(cache_->board(), "uuid-1");
  EXPECT_EQ(Get("a"), "content");
  cache_->BelongTo("uuid-2");
  EXPECT_EQ(Get("a"), std::nullopt);
  EXPECT_EQ(Files("objects"), 0u);
  Open();
  EXPECT_EQ(cache_->board(), "uuid-2");
}

TEST_F(DiskCacheTest, OneProcessAtATime) {
  Open();
  testing::ExpectError(
      ErrorCode::kConflict, [&] { DiskCache(dir_ / "cache", kBlock); }, "cache");
}

}  // namespace
}  // namespace isthmus::relay
