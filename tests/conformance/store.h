// What every Store promises, as tests (isthmus/store/store.h is the contract). An implementation
// registers with a harness:
//
//   struct DirHarness {
//     std::unique_ptr<Store> Open() const;  // one more client of one place, empty at first
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Dir, StoreConformance, DirHarness);
#ifndef ISTHMUS_TESTS_CONFORMANCE_STORE_H_
#define ISTHMUS_TESTS_CONFORMANCE_STORE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/store/store.h"
#include "tests/conformance/bad_keys.h"
#include "tests/conformance/store_races.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::store {

using isthmus::testing::ExpectError;

template <typename Harness>
class StoreConformance : public ::testing::Test {
 protected:
  void Put(const std::string& key, std::string_view content) { store_->Put(key, AsBytes(content)); }
  bool Create(const std::string& key, std::string_view content) {
    return store_->Create(key, AsBytes(content));
  }
  // nullopt if missing.
  std::optional<std::string> Get(const std::string& key) { return store_->Get(key, kAnyBytes); }

  Harness harness_;
  std::unique_ptr<Store> store_ = harness_.Open();
  isthmus::testing::TempDir local_;
};

TYPED_TEST_SUITE_P(StoreConformance);

TYPED_TEST_P(StoreConformance, WhatWasPutIsReadByEveryClient) {
  const std::string content("\0binary\xFF\n", 9);
  this->Put("runs/a/x-1_2.bin", content);
  this->Put("empty", "");
  EXPECT_EQ(this->Get("runs/a/x-1_2.bin"), content);
  EXPECT_EQ(this->store_->Size("runs/a/x-1_2.bin"), 9u);
  EXPECT_EQ(this->Get("empty"), "");
  EXPECT_EQ(this->store_->Size("empty"), 0u);
  EXPECT_EQ(this->harness_.Open()->Get("runs/a/x-1_2.bin", kAnyBytes), content);
}

TYPED_TEST_P(StoreConformance, PutReplacesAndCreateDoesNot) {
  EXPECT_TRUE(this->Create("a/k", "a longer first content"));
  EXPECT_FALSE(this->Create("a/k", "second"));
  EXPECT_EQ(this->Get("a/k"), "a longer first content");
  this->Put("a/k", "third");
  EXPECT_FALSE(this->Create("a/k", "fourth"));
  EXPECT_EQ(this->Get("a/k"), "third");
}

TYPED_TEST_P(StoreConformance, MissingObjectsAreReportedAsMissing) {
  this->Put("a/b", "content");
  for (const char* key : {"k", "a", "a/c", "a/b/c", "none/at/all"}) {
    SCOPED_TRACE(key);
    EXPECT_EQ(this->Get(key), std::nullopt);
    EXPECT_EQ(this->store_->Size(key), std::nullopt);
    ExpectError(
        ErrorCode::kNotFound, [&] { this->store_->GetRange(key, 0, 1); }, key);
    ExpectError(
        ErrorCode::kNotFound, [&] { this->store_->Fetch(key, this->local_ / "f", 10); }, key);
    EXPECT_NO_THROW(this->store_->Delete(key));
  }
  EXPECT_FALSE(fs::exists(this->local_ / "f"));
  EXPECT_EQ(this->Get("a/b"), "content");
}

TYPED_TEST_P(StoreConformance, AnObjectOverTheLimitIsRefused) {
  this->Put("k", "12345");
  EXPECT_EQ(this->store_->Get("k", 5), "12345");
  ExpectError(
      ErrorCode::kCorrupt, [&] { this->store_->Get("k", 4); }, "k", "5 bytes", "at most 4");
}

TYPED_TEST_P(StoreConformance, AFileOverTheLimitIsRefusedAndNothingIsTouched) {
  this->Put("k", "12345");
  this->Put("empty", "");
  const fs::path file = this->local_.Write("to", "old");
  const auto fetch = [&](const std::string& key, uint64_t max) {
    this->store_->Fetch(key, file, max);
  };
  ExpectError(
      ErrorCode::kCorrupt, [&] { fetch("k", 4); }, "k", "5 bytes", "at most 4");
  ExpectError(
      ErrorCode::kCorrupt, [&] { fetch("k", 0); }, "k", "at most 0");
  EXPECT_EQ(ReadFile(file, kAnyBytes), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(this->local_.path()), fs::directory_iterator()),
            1);
  fetch("k", 5);
  EXPECT_EQ(ReadFile(file, kAnyBytes), "12345");
  fetch("empty", 0);
  EXPECT_EQ(ReadFile(file, kAnyBytes), "");
}

TYPED_TEST_P(StoreConformance, RangesAreExactAndNeverShort) {
  this->Put("k", "0123456789");
  EXPECT_EQ(this->store_->GetRange("k", 0, 10), "0123456789");
  EXPECT_EQ(this->store_->GetRange("k", 3, 4), "3456");
  EXPECT_EQ(this->store_->GetRange("k", 9, 1), "9");
  EXPECT_EQ(this->store_->GetRange("k", 4, 0), "");
  EXPECT_EQ(this->store_->GetRange("k", 10, 0), "");
  struct Range {
    uint64_t offset, length;
  };
  for (const Range range : {Range{0, 11}, Range{10, 1}, Range{11, 0}, Range{1, kAnyBytes},
                            Range{kAnyBytes, 1}, Range{0, uint64_t{1} << 50}}) {
    const auto get = [&] { this->store_->GetRange("k", range.offset, range.length); };
    ExpectError(ErrorCode::kCorrupt, get, "k", std::to_string(range.offset));
  }
}

TYPED_TEST_P(StoreConformance, FilesTravelBothWays) {
  const std::string content(3'000'001, 'x');
  const fs::path file = this->local_.Write("from", content);
  uint64_t sent = 0;
  const FileDigest digest =
      this->store_->PutFile("a/k", file, [&](uint64_t bytes) { sent += bytes; });
  EXPECT_EQ(digest.bytes, content.size());
  EXPECT_EQ(digest.sha256, Sha256(AsBytes(content)));
  EXPECT_EQ(sent, content.size());
  EXPECT_EQ(this->Get("a/k"), content);

  uint64_t received = 0;
  const fs::path to = this->local_.Write("to", "what was there before");
  this->store_->Fetch("a/k", to, content.size(), [&](uint64_t bytes) { received += bytes; });
  EXPECT_EQ(ReadFile(to, kAnyBytes), content);
  EXPECT_EQ(received, content.size());
}

TYPED_TEST_P(StoreConformance, PutFileReplacesAndDetachesFromItsSource) {
  this->Put("k", "a longer first content");
  const fs::path file = this->local_.Write("from", "second");
  EXPECT_EQ(this->store_->PutFile("k", file).sha256, Sha256(AsBytes("second")));
  File::OpenReadWrite(file).WriteAt(0, AsBytes("SECOND"));
  EXPECT_EQ(this->Get("k"), "second");
  const FileDigest empty = this->store_->PutFile("k", this->local_.Write("empty", ""));
  EXPECT_EQ(empty.bytes, 0u);
  EXPECT_EQ(this->Get("k"), "");
}

TYPED_TEST_P(StoreConformance, PutFileOfAMissingFileChangesNothing) {
  this->Put("k", "content");
  const auto put = [&] { this->store_->PutFile("k", this->local_ / "none"); };
  ExpectError(ErrorCode::kNotFound, put, "none");
  EXPECT_EQ(this->Get("k"), "content");
  EXPECT_EQ(this->store_->List(""), std::vector<std::string>{"k"});
}

TYPED_TEST_P(StoreConformance, ListGivesTheKeysOfAnyPrefixSorted) {
  EXPECT_TRUE(this->store_->List("").empty());
  // '-' and '.' sort before '/': a walk through folders would give another order.
  const std::vector<std::string> all = {"a",      "b-c/k", "b.d",  "b/c/1",
                                        "b/c/10", "b/c/2", "b/cc", "z"};
  for (auto key = all.rbegin(); key != all.rend(); ++key) this->Put(*key, "content");
  for (const std::string prefix : {"", "a", "b", "b/", "b/c", "b/c/", "b/c/1", "b-", "b-c/k", "zz",
                                   "b/c/1/", "none/at/all", "/", "/b", "b//", "../", ".", "b/.."}) {
    std::vector<std::string> expected;
    std::ranges::copy_if(all, std::back_inserter(expected),
                         [&](const std::string& key) { return key.starts_with(prefix); });
    EXPECT_EQ(this->store_->List(prefix), expected) << "prefix " << prefix;
  }
}

TYPED_TEST_P(StoreConformance, DeleteRemovesOneObject) {
  this->Put("a/k", "1");
  this->Put("a/kk", "2");
  this->store_->Delete("a/k");
  EXPECT_EQ(this->Get("a/k"), std::nullopt);
  EXPECT_EQ(this->store_->List(""), std::vector<std::string>{"a/kk"});
  EXPECT_TRUE(this->Create("a/k", "again"));
  EXPECT_EQ(this->Get("a/k"), "again");
}

TYPED_TEST_P(StoreConformance, KeysThatBreakTheRulesAreInvalid) {
  for (const std::string& key : BadKeys()) {
    SCOPED_TRACE(key);
    const fs::path file = this->local_.Write("f", "x");
    const auto invalid = [](const auto& action) {
      ExpectError(ErrorCode::kInvalid, action, "key", "[A-Za-z0-9._-]");
    };
    invalid([&] { this->Get(key); });
    invalid([&] { this->store_->GetRange(key, 0, 0); });
    invalid([&] { this->store_->Size(key); });
    invalid([&] { this->store_->Fetch(key, file, 10); });
    invalid([&] { this->Put(key, "x"); });
    invalid([&] { this->store_->PutFile(key, file); });
    invalid([&] { this->Create(key, "x"); });
    invalid([&] { this->store_->Delete(key); });
  }
  EXPECT_TRUE(this->store_->List("").empty());
}

TYPED_TEST_P(StoreConformance, TheLongestKeyIsAllowed) {
  std::string key(1024, 'x');
  for (size_t i = 9; i < 1020; i += 10) key[i] = '/';
  this->Put(key, "content");
  EXPECT_EQ(this->Get(key), "content");
  EXPECT_EQ(this->store_->List("xxx"), std::vector<std::string>{key});
}

TYPED_TEST_P(StoreConformance, OfRacingCreatorsExactlyOneWins) {
  const std::unique_ptr<Store> other = this->harness_.Open();
  for (int round = 0; round < 20; ++round) {
    ExpectOneCreatorWins(*this->store_, *other, "round" + std::to_string(round) + "/k");
  }
}

TYPED_TEST_P(StoreConformance, AReaderNeverSeesPartOfAReplacement) {
  const fs::path file = this->local_.Write("from", std::string(50'000, 'a'));
  ExpectReplacementIsAtomic(*this->store_, *this->harness_.Open(), "k", file);
}

REGISTER_TYPED_TEST_SUITE_P(
    StoreConformance, WhatWasPutIsReadByEveryClient, PutReplacesAndCreateDoesNot,
    MissingObjectsAreReportedAsMissing, AnObjectOverTheLimitIsRefused,
    AFileOverTheLimitIsRefusedAndNothingIsTouched, RangesAreExactAndNeverShort, FilesTravelBothWays,
    PutFileReplacesAndDetachesFromItsSource, PutFileOfAMissingFileChangesNothing,
    ListGivesTheKeysOfAnyPrefixSorted, DeleteRemovesOneObject, KeysThatBreakTheRulesAreInvalid,
    TheLongestKeyIsAllowed, OfRacingCreatorsExactlyOneWins, AReaderNeverSeesPartOfAReplacement);

}  // namespace isthmus::store

#endif  // ISTHMUS_TESTS_CONFORMANCE_STORE_H_
