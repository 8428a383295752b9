#include "isthmus/store/read_ahead.h"

#include <gtest/gtest.h>

#include "isthmus/store/dir_store.h"
#include "tests/conformance/store.h"
#include "tests/support/errors.h"
#include "tests/support/scripted_store.h"
#include "tests/support/temp_dir.h"

namespace isthmus::store {
namespace {

using testing::ExpectError;
using testing::ScriptedPlace;
using testing::ScriptedStore;

struct ReadAheadHarness {
  std::unique_ptr<Store> Open() const {
    const std::vector<std::string> keys = {"a/k", "a/b", "empty", "runs/a/x-1_2.bin",
                                           "none/at/all"};
    return std::make_unique<ReadAhead>(std::make_unique<DirStore>(directory.path()), keys, 100);
  }
  isthmus::testing::TempDir directory;
};

INSTANTIATE_TYPED_TEST_SUITE_P(ReadAhead, StoreConformance, ReadAheadHarness);

class ReadAheadTest : public ::testing::Test {
 protected:
  // With what is there now.
  ReadAhead Open(const std::vector<std::string>& keys, uint64_t max_bytes = 100) {
    return {std::make_unique<ScriptedStore>(place_), keys, max_bytes};
  }

  std::shared_ptr<ScriptedPlace> place_ = std::make_shared<ScriptedPlace>();
};

TEST_F(ReadAheadTest, WhatWasReadAheadAnswersSizesAndOneGet) {
  place_->Set("k", "12345");
  ReadAhead store = Open({"k"});
  EXPECT_EQ(store.Size("k"), 5u);
  EXPECT_EQ(store.Size("k"), 5u);
  EXPECT_EQ(store.Get("k", 10), "12345");
  EXPECT_EQ(place_->Calls("get") + place_->Calls("size"), 1u);
  place_->Set("k", "new");
  EXPECT_EQ(store.Size("k"), 3u);
  EXPECT_EQ(store.Get("k", 10), "new");
}

TEST_F(ReadAheadTest, WhatWasMissingIsAskedForAgain) {
  ReadAhead store = Open({"k", "other"});
  EXPECT_EQ(store.Size("k"), std::nullopt);
  EXPECT_EQ(store.Get("other", 10), std::nullopt);
  EXPECT_EQ(place_->Calls("get"), 2u);
  place_->Set("k", "here");
  place_->Set("other", "too");
  EXPECT_EQ(store.Get("k", 10), "here");
  EXPECT_EQ(store.Size("other"), 3u);
}

TEST_F(ReadAheadTest, AFailureIsTheFirstAnswer) {
  place_->FailWith(Error(ErrorCode::kUnavailable, "away"));
  ReadAhead store = Open({"k", "other"});
  ExpectError(
      ErrorCode::kUnavailable, [&] { store.Get("k", 10); }, "away");
  ExpectError(
      ErrorCode::kUnavailable, [&] { store.Size("other"); }, "away");
  EXPECT_EQ(place_->Calls("get"), 2u);
  place_->FailWith(std::nullopt);
  EXPECT_EQ(store.Get("k", 10), std::nullopt);
}

TEST_F(ReadAheadTest, LimitsAreThoseOfWhoAsks) {
  place_->Set("k", "12345");
  place_->Set("large", std::string(101, 'x'));
  ReadAhead store = Open({"k", "large"});
  ExpectError(
      ErrorCode::kCorrupt, [&] { store.Get("k", 4); }, "k");
  EXPECT_EQ(store.Size("large"), 101u);
  EXPECT_EQ(store.Get("large", 101), std::string(101, 'x'));
}

TEST_F(ReadAheadTest, WhatNobodyAskedForIsWaitedForAtTheEnd) {
  place_->Set("k", "1");
  { const ReadAhead store = Open({"k", "none"}); }
  EXPECT_EQ(place_->Calls("get"), 2u);
}

}  // namespace
}  // namespace isthmus::store
