#include "isthmus/relay/objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "tests/support/errors.h"
#include "tests/support/net.h"
#include "tests/support/scripted_store.h"
#include "tests/support/temp_dir.h"

namespace isthmus::relay {
namespace {

using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;
namespace asio = boost::asio;
using isthmus::testing::Pending;
using isthmus::testing::ScriptedPlace;
using isthmus::testing::ScriptedStore;
using ::testing::HasSubstr;

constexpr char kKey[] = "runs/r/data/1/a/part";

// An object of so many bytes in which no two pieces are alike.
std::string Content(uint64_t bytes) {
  std::string content(bytes, '\0');
  for (size_t i = 0; i < content.size(); i += 64) content[i] = static_cast<char>(i / 64 % 251 + 1);
  return content;
}

// Stands still unless it is told to go on.
class ManualClock final : public Clock {
 public:
  WallTime Now() const override { return {}; }
  MonotonicTime Monotonic() const override { return MonotonicTime(time_.load()); }
  void Advance(std::chrono::milliseconds time) { time_ = time_.load() + time; }

 private:
  std::atomic<MonotonicTime::duration> time_{std::chrono::hours(1)};
};

class ObjectsTest : public ::testing::Test {
 protected:
  ObjectsTest() {
    place_->Set("board.json", R"({"format":1,"board":"7e57ab1e-0000-4000-8000-000000000000"})");
    Start(kRoomy);
  }
  void TearDown() override { Stop(); }

  // 0: without a cache.
  void Start(uint64_t cache_bytes) {
    loop_.emplace();
    loop_->Do([&] {
      if (cache_bytes > 0) cache_ = std::make_shared<DiskCache>(dir_ / "cache", cache_bytes);
      errands_.emplace(loop_->loop());
      origin_.emplace([this] { return std::make_unique<ScriptedStore>(place_); }, "");
      objects_.emplace(*errands_, *origin_, cache_, clock_);
    });
  }
  void Stop() {
    if (!loop_) return;
    place_->LetAllPass();
    loop_->Do([&] { objects_->Stop(); });
    loop_->Run([&] { return errands_->AllEnded(); });
    loop_->Do([&] {
      objects_.reset();
      origin_.reset();
      errands_.reset();
      cache_.reset();
    });
    loop_.reset();
  }
  void Restart(uint64_t cache_bytes) {
    Stop();
    Start(cache_bytes);
  }

  // All of an object from a byte on.
  static net::Task<std::string> ReadAll(Objects* objects, std::string key, uint64_t from) {
    ObjectReader reader = co_await objects->Open(std::move(key));
    std::string content;
    while (from + content.size() < reader.object_bytes()) {
      const uint64_t at = from + content.size();
      const std::string_view piece = co_await reader.Read(at, reader.object_bytes() - at);
      content += piece;
    }
    co_return content;
  }
  Pending<std::string> Begin(uint64_t from = 0, const std::string& key = kKey) {
    return loop_->Spawn([this, from, key] { return ReadAll(&*objects_, key, from); });
  }
  std::string Read(uint64_t from = 0, const std::string& key = kKey) {
    return Begin(from, key).get();
  }

  uint64_t Size(const std::string& key = kKey) {
    return loop_->Run([this, key] { return objects_->Size(key); });
  }
  std::string Get(const std::string& key) {
    return *loop_->Run([this, key] { return objects_->Get(key); });
  }
  std::string List(const std::string& prefix) {
    return *loop_->Run([this, prefix] { return objects_->List(prefix); });
  }
  ObjectCounters counters() {
    return loop_->Do([this] { return objects_->counters(); });
  }
  size_t fetching() {
    return loop_->Do([this] { return objects_->fetching(); });
  }
  bool Landed() {
    return loop_->Eventually([this] { return objects_->fetching() == 0; });
  }

  static constexpr uint64_t kRoomy = uint64_t{64} << 20;

  testing::TempDir dir_;
  ManualClock clock_;
  std::shared_ptr<ScriptedPlace> place_ = std::make_shared<ScriptedPlace>();
  std::optional<LoopThread> loop_;
  std::shared_ptr<DiskCache> cache_;
  std::optional<Errands> errands_;
  std::optional<Origin> origin_;
  std::optional<Objects> objects_;
};

TEST_F(ObjectsTest, AnObjectIsFetchedOnceAndThenReadFromTheCacheAlsoAfterARestart) {
  const std::string content = Content(3 * kPieceBytes + 17);
  place_->Set(kKey, content);
  EXPECT_EQ(Read(), content);
  EXPECT_TRUE(Landed());
  EXPECT_EQ(Read(), content);
  EXPECT_EQ(Read(kPieceBytes - 1), content.substr(kPieceBytes - 1));
  EXPECT_EQ(place_->RangeBytes(), content.size());
  Restart(kRoomy);
  place_->Remove(kKey);
  EXPECT_EQ(Read(), content);
  EXPECT_EQ(Size(), content.size());
  EXPECT_EQ(place_->RangeBytes(), content.size());
  EXPECT_EQ(counters().hits, 1u);
}

TEST_F(ObjectsTest, AnEmptyObjectIsAnObject) {
  place_->Set(kKey, "");
  EXPECT_EQ(Read(), "");
  EXPECT_TRUE(Landed());
  EXPECT_EQ(Read(), "");
  EXPECT_EQ(counters().hits, 1u);
}

TEST_F(ObjectsTest, ManyWhoAskAtOnceShareOneFetch) {
  const std::string content = Content(2 * kPieceBytes + 1);
  place_->Set(kKey, content);
  place_->HoldRanges();
  std::vector<Pending<std::string>> readers;
  readers.reserve(32);
  for (uint64_t i = 0; i < 32; ++i) readers.push_back(Begin(i));
  EXPECT_TRUE(loop_->Eventually([this] { return objects_->counters().joined == 31; }));
  place_->LetAllPass();
  for (uint64_t i = 0; i < 32; ++i) EXPECT_EQ(readers[i].get(), content.substr(i));
  EXPECT_EQ(place_->RangeBytes(), content.size());
  EXPECT_EQ(counters().misses, 1u);
}

TEST_F(ObjectsTest, ReadersGetBytesWhileTheRestIsStillAway) {
  place_->Set(kKey, Content(6 * kPieceBytes));
  place_->HoldRanges();
  auto first_byte = [this]() -> net::Task<size_t> {
    ObjectReader reader = co_await objects_->Open(kKey);
    const std::string_view piece = co_await reader.Read(0, 1000);
    co_return piece.size();
  };
  auto waiting = loop_->Spawn(first_byte);
  // The first pieces come in any order: as many as are fetched at a time have surely the first.
  place_->LetPass(Flight::kAhead);
  EXPECT_GT(waiting.get(), 0u);
  EXPECT_EQ(fetching(), 1u);
}

TEST_F(ObjectsTest, WhatSomebodyWaitsForIsFetchedFirst) {
  const std::string content = Content(15 * kPieceBytes);
  place_->Set(kKey, content);
  place_->HoldRanges();
  auto begin = Begin();
  EXPECT_TRUE(loop_->Eventually([this] { return place_->Calls("range") == Flight::kAhead; }));
  auto first_byte = [this]() -> net::Task<size_t> {
    ObjectReader reader = co_await objects_->Open(kKey);
    const std::string_view piece = co_await reader.Read(14 * kPieceBytes + 5, 1000);
    co_return piece.size();
  };
  auto waiting = loop_->Spawn(first_byte);
  EXPECT_TRUE(loop_->Eventually([this] { return objects_->counters().joined == 1; }));
  place_->LetPass(2 * Flight::kAhead);
  EXPECT_GT(waiting.get(), 0u);
  EXPECT_EQ(fetching(), 1u);
  place_->LetAllPass();
  EXPECT_EQ(begin.get(), content);
}

TEST_F(ObjectsTest, HitsDoNotWaitForAnOriginThatIsStuck) {
  place_->Set(kKey, "content");
  Read();
  EXPECT_TRUE(Landed());
  place_->HoldRanges();
  std::vector<Pending<std::string>> stuck;
  for (const char* key : {"runs/r/data/2/a", "runs/r/data/3/a", "runs/r/data/4/a"}) {
    place_->Set(key, Content(5 * kPieceBytes));
    stuck.push_back(Begin(0, key));
  }
  // All threads that fetch wait.
  EXPECT_TRUE(loop_->Eventually([this] { return place_->Calls("range") >= 8; }));
  EXPECT_EQ(Read(), "content");
  EXPECT_EQ(Size(), 7u);
  EXPECT_EQ(List("runs/r/data/1/"), "{\"keys\":[\"runs/r/data/1/a/part\"]}\n");
  place_->LetAllPass();
  for (auto& reader : stuck) EXPECT_EQ(reader.get().size(), 5 * kPieceBytes);
}

TEST_F(ObjectsTest, AFailedFetchFailsAllReadersAndTheNextOneTriesAgain) {
  const std::string content = Content(2 * kPieceBytes);
  place_->Set(kKey, content);
  place_->HoldRanges();
  std::vector<Pending<std::string>> readers;
  readers.reserve(8);
  for (int i = 0; i < 8; ++i) readers.push_back(Begin());
  EXPECT_TRUE(loop_->Eventually([this] { return objects_->counters().joined == 7; }));
  place_->FailWith(Error(ErrorCode::kUnavailable, "the network is away"));
  place_->LetAllPass();
  for (auto& reader : readers) {
    ExpectError(
        ErrorCode::kUnavailable, [&] { reader.get(); }, "the network is away");
  }
  place_->FailWith(std::nullopt);
  EXPECT_EQ(Read(), content);
  EXPECT_TRUE(Landed());
  EXPECT_EQ(counters().failed, 1u);
}

TEST_F(ObjectsTest, AnObjectThatShrinksWhileItIsFetchedIsNotKept) {
  const std::string content = Content(4 * kPieceBytes);
  place_->Set(kKey, content);
  place_->HoldRanges();
  auto reader = Begin();
  place_->LetPass(1);
  EXPECT_TRUE(loop_->Eventually([this] { return place_->RangeBytes() > 0; }));
  place_->Set(kKey, content.substr(0, kPieceBytes));
  place_->LetAllPass();
  ExpectError(ErrorCode::kCorrupt, [&] { reader.get(); });
  EXPECT_TRUE(Landed());
  EXPECT_EQ(Read(), content.substr(0, kPieceBytes));
  place_->Set(kKey, content);
}

TEST_F(ObjectsTest, AnObjectThatGrewWhileItWasFetchedIsNotKept) {
  const std::string content = Content(kPieceBytes);
  place_->Set(kKey, content);
  place_->HoldRanges();
  auto reader = Begin();
  EXPECT_TRUE(loop_->Eventually([this] { return place_->Calls("range") == 1; }));
  place_->Set(kKey, content + "more");
  place_->LetAllPass();
  reader.get();
  EXPECT_TRUE(Landed());
  EXPECT_EQ(counters().failed, 1u);
  EXPECT_EQ(Read(), content + "more");
}

TEST_F(ObjectsTest, ReadersThatLeaveDoNotEndTheFetch) {
  place_->Set(kKey, Content(2 * kPieceBytes));
  place_->HoldRanges();
  asio::cancellation_signal leave;
  loop_->Do([&] {
    asio::co_spawn(loop_->loop().get_executor(), ReadAll(&*objects_, kKey, 0),
                   asio::bind_cancellation_slot(
                       leave.slot(), [](const std::exception_ptr&, const std::string&) {}));
  });
  EXPECT_TRUE(loop_->Eventually([this] { return objects_->fetching() == 1; }));
  loop_->Do([&] { leave.emit(asio::cancellation_type::terminal); });
  place_->LetAllPass();
  EXPECT_TRUE(Landed());
  Read();
  EXPECT_EQ(counters().hits, 1u);
}

TEST_F(ObjectsTest, WhatHasNoRoomPassesThroughAndIsNotKept) {
  Restart(kPieceBytes);
  const std::string content = Content(kPieceBytes + 1);
  place_->Set(kKey, content);
  EXPECT_EQ(Read(), content);
  EXPECT_EQ(Read(5), content.substr(5));
  EXPECT_EQ(loop_->Do([this] { return objects_->places().passed; }), 2u);
  EXPECT_EQ(loop_->Do([this] { return objects_->places().passing; }), 0u);
  EXPECT_EQ(loop_->Do([this] { return cache_->index().used_bytes(); }), 0u);
}

TEST_F(ObjectsTest, WithoutACacheEverythingPassesThrough) {
  Restart(0);
  const std::string content = Content(100'000);
  place_->Set(kKey, content);
  EXPECT_EQ(Read(), content);
  EXPECT_EQ(Size(), content.size());
}

TEST_F(ObjectsTest, AFileThatWasDamagedBetweenTwoProcessesIsFetchedAgain) {
  const std::string content = Content(1000);
  place_->Set(kKey, content);
  Read();
  EXPECT_TRUE(Landed());
  Stop();
  const fs::path file = fs::directory_iterator(dir_ / "cache" / "objects")->path();
  File::OpenReadWrite(file).WriteAt(500, AsBytes("X"));
  Start(kRoomy);
  std::vector<Pending<std::string>> readers;
  readers.reserve(4);
  for (int i = 0; i < 4; ++i) readers.push_back(Begin());
  for (auto& reader : readers) EXPECT_EQ(reader.get(), content);
  EXPECT_EQ(counters().unsound, 1u);
  EXPECT_TRUE(Landed());
  EXPECT_EQ(Read(), content);
}

TEST_F(ObjectsTest, MissingIsAskedForOnceInAWhileAndForgottenWhenThereIsNews) {
  const std::string key = "runs/r/log/0000000001.json";
  ExpectError(
      ErrorCode::kNotFound, [&] { Read(0, key); }, key);
  const size_t asked = place_->Calls("size");
  place_->Set(key, "{}");
  ExpectError(ErrorCode::kNotFound, [&] { Size(key); });
  EXPECT_EQ(place_->Calls("size"), asked);
  loop_->Do([this] { objects_->ForgetRun("r"); });
  EXPECT_EQ(Read(0, key), "{}");
}

TEST_F(ObjectsTest, NothingThatMayChangeIsToldForLong) {
  const std::string key = "runs/r/log/0000000001.json";
  ExpectError(ErrorCode::kNotFound, [&] { Size(key); });
  EXPECT_EQ(List("runs/"), "{\"keys\":[]}\n");
  place_->Set(key, "{}");
  clock_.Advance(Objects::kFreshFor - std::chrono::milliseconds(1));
  ExpectError(ErrorCode::kNotFound, [&] { Size(key); });
  clock_.Advance(std::chrono::milliseconds(1));
  EXPECT_EQ(Size(key), 2u);
  EXPECT_THAT(List("runs/"), HasSubstr(key));
}

TEST_F(ObjectsTest, HintsAndListsAreFreshAgainWhenThereIsNews) {
  place_->Set("runs/r/head.json", "1");
  place_->Set("runs/s/head.json", "1");
  place_->Set("unrelated", "secret");
  EXPECT_EQ(Get("runs/r/head.json"), "1");
  EXPECT_EQ(Get("runs/s/head.json"), "1");
  EXPECT_EQ(List(""), "{\"keys\":[\"board.json\",\"runs/r/head.json\",\"runs/s/head.json\"]}\n");
  place_->Set("runs/r/head.json", "2");
  place_->Set("runs/r/x", "2");
  EXPECT_EQ(Get("runs/r/head.json"), "1");
  loop_->Do([this] { objects_->ForgetRun("r"); });
  EXPECT_EQ(Get("runs/r/head.json"), "2");
  EXPECT_EQ(place_->Calls("get"), 4u);  // board.json, and these three
  EXPECT_THAT(List(""), HasSubstr("runs/r/x"));
}

TEST_F(ObjectsTest, AHintThatIsNoneIsRefused) {
  place_->Set("runs/r/head.json", std::string(Objects::kMaxMutableBytes + 1, 'x'));
  ExpectError(ErrorCode::kCorrupt, [&] { Get("runs/r/head.json"); });
}

TEST_F(ObjectsTest, APlaceWithoutItsBoardIsAwayAndNotEmpty) {
  EXPECT_EQ(List("runs/"), "{\"keys\":[]}\n");
  place_->Remove("board.json");
  ExpectError(
      ErrorCode::kUnavailable, [&] { Read(); }, "board.json");
  ExpectError(ErrorCode::kUnavailable, [&] { Get("runs/r/head.json"); });
  ExpectError(ErrorCode::kUnavailable, [&] { List("runs/x"); });
}

TEST_F(ObjectsTest, WhatTheStoreIsNotAllowedToDoIsNotTheClientsFault) {
  Size("board.json");
  place_->FailWith(Error(ErrorCode::kInvalid, "no permission"));
  ExpectError(
      ErrorCode::kUnavailable, [&] { Read(); }, "no permission");
}

TEST_F(ObjectsTest, AnotherBoardThanTheCachesIsNotTouched) {
  Restart(kRoomy);
  loop_->Do([this] {
    objects_.reset();
    origin_.emplace([this] { return std::make_unique<ScriptedStore>(place_); }, "another");
    objects_.emplace(*errands_, *origin_, cache_, clock_);
  });
  place_->Set(kKey, "content");
  ExpectError(
      ErrorCode::kUnavailable, [&] { Read(); }, "7e57ab1e", "another");
}

}  // namespace
}  // namespace isthmus::relay
