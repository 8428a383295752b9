// The store conformance suite over buckets of a real server, which s3_servers_test.py starts:
// ISTHMUS_TEST_S3 is the location of a bucket, and with a number behind it of one of a hundred
// more; AWS_… say where the server is and with what keys.
#include <gtest/gtest.h>

#include <cstdlib>

#include "isthmus/base/random.h"
#include "isthmus/base/thread_pool.h"
#include "tests/conformance/store.h"

namespace isthmus::store {
namespace {

std::string Bucket() {
  const char* const bucket = std::getenv("ISTHMUS_TEST_S3");
  if (bucket == nullptr) throw std::runtime_error("ISTHMUS_TEST_S3 is not set");
  return bucket;
}

std::unique_ptr<Store> OpenBoard(const std::string& location) {
  StoreOptions options;
  options.deadline = std::chrono::seconds(20);
  return OpenStore(location, options);
}

// A bucket of its own, so that keys may be as long as S3 allows.
struct S3Harness {
  static int Next() {
    static int count = 0;
    return count++;
  }
  std::unique_ptr<Store> Open() const { return OpenBoard(location); }
  std::string location = Bucket() + std::to_string(Next());
};

INSTANTIATE_TYPED_TEST_SUITE_P(S3, StoreConformance, S3Harness);

// A prefix of its own in one bucket.
struct PrefixHarness {
  std::unique_ptr<Store> Open() const { return OpenBoard(location); }
  std::string location = Bucket() + "/boards/t" + RandomId();
};

// More than one page of a listing, and more than one part.
class S3StoreTest : public ::testing::Test {
 protected:
  PrefixHarness harness_;
  std::unique_ptr<Store> store_ = harness_.Open();
  isthmus::testing::TempDir local_;
};

TEST_F(S3StoreTest, AListingHasAsManyPagesAsItTakes) {
  std::vector<std::string> keys;
  for (int i = 10'000; i < 12'100; ++i) keys.push_back("log/" + std::to_string(i));
  ThreadPool pool(8);
  pool.ParallelFor(keys.size(), [&](size_t i) { store_->Put(keys[i], AsBytes("x")); });
  EXPECT_EQ(store_->List("log/"), keys);
  EXPECT_EQ(store_->List("log/1209").size(), 10u);
}

// `bytes` bytes that do not repeat.
fs::path RandomFile(const isthmus::testing::TempDir& directory, uint64_t bytes) {
  ByteVector content(bytes);
  SystemRandom().Fill(content);
  return directory.Write("from", AsText(content));
}

TEST_F(S3StoreTest, LargeFilesTravelInPartsAndRanges) {
  const fs::path file = RandomFile(local_, (uint64_t{100} << 20) + 12'345);
  const FileDigest expected = DigestFile(file);
  uint64_t sent = 0;
  const FileDigest stored = store_->PutFile("large", file, [&](uint64_t bytes) { sent += bytes; });
  EXPECT_EQ(stored.sha256, expected.sha256);
  EXPECT_EQ(sent, expected.bytes);
  EXPECT_EQ(store_->Size("large"), expected.bytes);
  uint64_t received = 0;
  store_->Fetch("large", local_ / "to", expected.bytes, [&](uint64_t bytes) { received += bytes; });
  EXPECT_EQ(DigestFile(local_ / "to").sha256, expected.sha256);
  EXPECT_EQ(received, expected.bytes);
  const std::string middle = store_->GetRange("large", 15'000'000, 5'000'000);
  ByteVector original(middle.size());
  File::OpenRead(file).ReadAt(15'000'000, original);
  EXPECT_EQ(middle, AsText(original));
}

TEST_F(S3StoreTest, LargeContentInMemoryTravelsInParts) {
  ByteVector content((uint64_t{64} << 20) + 1);
  SystemRandom().Fill(content);
  store_->Put("large", content);
  store_->Fetch("large", local_ / "to", content.size());
  EXPECT_EQ(DigestFile(local_ / "to").sha256, Sha256(content));
}

TEST_F(S3StoreTest, ObjectsAroundTheSizeOfARangeAreWhole) {
  for (const uint64_t bytes :
       {(uint64_t{16} << 20) - 1, uint64_t{16} << 20, (uint64_t{16} << 20) + 1}) {
    const fs::path file = RandomFile(local_, bytes);
    store_->PutFile("k", file);
    store_->Fetch("k", local_ / "to", bytes);
    ExpectError(
        ErrorCode::kCorrupt, [&] { store_->Fetch("k", local_ / "to2", bytes - 1); }, "at most");
    EXPECT_FALSE(fs::exists(local_ / "to2"));
    EXPECT_EQ(DigestFile(local_ / "to").sha256, DigestFile(file).sha256) << bytes;
  }
}

TEST_F(S3StoreTest, AFailedFetchLeavesWhatWasThere) {
  const fs::path file = local_.Write("to", "old");
  EXPECT_THROW(store_->Fetch("none", file, 10), Error);
  EXPECT_EQ(ReadFile(file, 10), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(local_.path()), fs::directory_iterator()), 1);
}

TEST_F(S3StoreTest, TheProbeOfConditionalWritesPassesAndLeavesNothing) {
  EXPECT_NO_THROW(CheckCreateIsConditional(*store_));
  EXPECT_TRUE(store_->List("").empty());
}

TEST_F(S3StoreTest, ABucketThatDoesNotExistIsNotFound) {
  const std::unique_ptr<Store> other = OpenStore(Bucket() + "-not");
  ExpectError(
      ErrorCode::kNotFound, [&] { other->Get("k", 10); }, "NoSuchBucket");
  ExpectError(
      ErrorCode::kNotFound, [&] { other->Put("k", AsBytes("x")); }, "NoSuchBucket");
}

// As in the suite, but without a key that others go below: s3s-fs keeps objects in files, and
// answers 500 for a folder.
TEST_F(S3StoreTest, MissingObjectsAreMissing) {
  store_->Put("a/b", AsBytes("content"));
  for (const char* key : {"k", "a/c", "a/b/c", "none/at/all"}) {
    EXPECT_EQ(store_->Get(key, 10), std::nullopt);
    EXPECT_EQ(store_->Size(key), std::nullopt);
    ExpectError(
        ErrorCode::kNotFound, [&] { store_->GetRange(key, 0, 1); }, key, harness_.location);
    ExpectError(
        ErrorCode::kNotFound, [&] { store_->Fetch(key, local_ / "f", 10); }, key,
        harness_.location);
    EXPECT_NO_THROW(store_->Delete(key));
  }
  EXPECT_EQ(store_->List(""), std::vector<std::string>{"a/b"});
}

TEST_F(S3StoreTest, ABoardSeesNothingBesideItsPrefix) {
  const std::unique_ptr<Store> beside = OpenBoard(harness_.location + "x");
  store_->Put("k", AsBytes("1"));
  beside->Put("k", AsBytes("2"));
  EXPECT_EQ(store_->List(""), std::vector<std::string>{"k"});
  EXPECT_EQ(store_->Get("k", 10), "1");
}

// What a bucket must not do for two publishers, a hundred times.
TEST_F(S3StoreTest, OfSixtyFourCreatorsExactlyOneWinsAHundredTimes) {
  const std::unique_ptr<Store> other = harness_.Open();
  for (int round = 0; round < 100; ++round) {
    ExpectOneCreatorWins(*store_, *other, "race/" + std::to_string(round));
  }
}

}  // namespace
}  // namespace isthmus::store
