#include "isthmus/relay/watch_hub.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "tests/support/errors.h"
#include "tests/support/net.h"

namespace isthmus::relay {
namespace {

using board::VersionNumber;
using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;
namespace asio = boost::asio;
using isthmus::testing::Pending;
using net::Milliseconds;

constexpr Milliseconds kLong{50'000};

// All on the loop's thread.
struct Log {
  VersionNumber version = board::kNoVersion;
  std::optional<Error> failure;
  size_t asked = 0;
  std::set<std::string> runs;
  size_t news = 0;
};

class WatchHubTest : public ::testing::Test {
 protected:
  WatchHubTest() {
    loop_.Do([this] {
      errands_.emplace(loop_.loop());
      hub_.emplace(*errands_,
                   WatchHub::Options{.ask = [this](std::string run) { return Ask(std::move(run)); },
                                     .poll = Milliseconds(10),
                                     .on_news = [this](const auto&) { ++log_.news; }});
    });
  }
  void TearDown() override {
    loop_.Do([this] { hub_->Stop(); });
    loop_.Run([this] { return errands_->AllEnded(); });
  }

  net::Task<VersionNumber> Ask(std::string run) {
    ++log_.asked;
    log_.runs.insert(run);
    if (log_.failure) throw Error(*log_.failure);
    co_return log_.version;
  }
  Pending<VersionNumber> Begin(VersionNumber after, Milliseconds timeout = kLong,
                               const std::string& run = "r") {
    return loop_.Spawn([this, after, timeout, run] { return hub_->Wait(run, after, timeout); });
  }
  VersionNumber Wait(VersionNumber after, Milliseconds timeout = kLong) {
    return Begin(after, timeout).get();
  }
  void Publish(VersionNumber version) {
    loop_.Do([&] { log_.version = version; });
  }

  LoopThread loop_;
  Log log_;
  std::optional<Errands> errands_;
  std::optional<WatchHub> hub_;
};

TEST_F(WatchHubTest, WhatIsThereIsToldAtOnceAndTheNewestOfIt) {
  Publish(7);
  EXPECT_EQ(Wait(0), 7u);
  EXPECT_EQ(Wait(6), 7u);
}

TEST_F(WatchHubTest, NothingNewerIsToldAfterTheTimeout) {
  Publish(7);
  EXPECT_EQ(Wait(7, Milliseconds(0)), board::kNoVersion);
  EXPECT_EQ(Wait(9, Milliseconds(20)), board::kNoVersion);
}

TEST_F(WatchHubTest, ANewVersionWakesAllThoughOneAsks) {
  Publish(1);
  std::vector<Pending<VersionNumber>> watches;
  watches.reserve(WatchHub::kMaxRuns);
  for (int i = 0; i < 200; ++i) watches.push_back(Begin(1));
  ASSERT_TRUE(loop_.Eventually([this] { return hub_->watchers() == 200 && log_.asked >= 3; }));
  EXPECT_EQ(loop_.Do([this] { return hub_->runs(); }), 1u);
  Publish(3);
  for (auto& watch : watches) EXPECT_EQ(watch.get(), 3u);
  EXPECT_EQ(loop_.Do([this] { return hub_->watchers(); }), 0u);
  EXPECT_EQ(log_.news, 2u);
  // Nobody watches: nobody asks.
  EXPECT_TRUE(loop_.Eventually([this] { return hub_->runs() == 0; }));
  EXPECT_EQ(loop_.Do([this] { return errands_->running(); }), 0u);
}

TEST_F(WatchHubTest, RunsAreWatchedApart) {
  Publish(1);
  auto a = Begin(1, kLong, "a");
  auto b = Begin(1, kLong, "b");
  ASSERT_TRUE(loop_.Eventually([this] { return hub_->runs() == 2; }));
  Publish(2);
  EXPECT_EQ(a.get() + b.get(), 4u);
  EXPECT_EQ(log_.runs, (std::set<std::string>{"a", "b"}));
}

TEST_F(WatchHubTest, WhoCannotKnowSaysSo) {
  loop_.Do([&] { log_.failure = Error(ErrorCode::kUnavailable, "the origin is away"); });
  ExpectError(
      ErrorCode::kUnavailable, [&] { Wait(0, Milliseconds(0)); }, "the origin is away");
  auto watch = Begin(0);
  ASSERT_TRUE(loop_.Eventually([this] { return log_.asked >= 4; }));
  loop_.Do([&] { log_.failure.reset(); });
  Publish(1);
  EXPECT_EQ(watch.get(), 1u);
}

TEST_F(WatchHubTest, VersionsDoNotGoBack) {
  Publish(5);
  auto watch = Begin(5);
  ASSERT_TRUE(loop_.Eventually([this] { return log_.asked >= 1; }));
  Publish(2);
  ASSERT_TRUE(loop_.Eventually([this] { return log_.asked >= 3; }));
  EXPECT_EQ(Wait(0), 5u);
  Publish(6);
  EXPECT_EQ(watch.get(), 6u);
}

TEST_F(WatchHubTest, WatchersThatComeAndGoDoNotMakeItAskMore) {
  Publish(1);
  auto busy = [this]() -> net::Task<size_t> {
    size_t waits = 0;
    while (log_.asked < 3) {
      co_await hub_->Wait("r", 1, Milliseconds(0));
      co_await asio::post(net::kAwait);  // others have their turn
      ++waits;
    }
    co_return waits;
  };
  EXPECT_GT(loop_.Run(busy), 100u);
}

TEST_F(WatchHubTest, TooManyRunsAreRefused) {
  std::vector<Pending<VersionNumber>> watches;
  watches.reserve(WatchHub::kMaxRuns);
  for (size_t i = 0; i < WatchHub::kMaxRuns; ++i) {
    watches.push_back(Begin(0, kLong, "run" + std::to_string(i)));
  }
  ASSERT_TRUE(loop_.Eventually([this] { return hub_->runs() == WatchHub::kMaxRuns; }));
  ExpectError(ErrorCode::kUnavailable, [&] { Begin(0, kLong, "another").get(); });
  Publish(1);
  for (auto& watch : watches) EXPECT_EQ(watch.get(), 1u);
}

TEST_F(WatchHubTest, AWatchThatIsCancelledLeaves) {
  asio::cancellation_signal leave;
  loop_.Do([&] {
    asio::co_spawn(
        loop_.loop().get_executor(), hub_->Wait("r", 0, kLong),
        asio::bind_cancellation_slot(leave.slot(), [](const std::exception_ptr&, auto) {}));
  });
  ASSERT_TRUE(loop_.Eventually([this] { return hub_->watchers() == 1; }));
  loop_.Do([&] { leave.emit(asio::cancellation_type::terminal); });
  EXPECT_TRUE(loop_.Eventually([this] { return hub_->watchers() == 0 && hub_->runs() == 0; }));
}

TEST_F(WatchHubTest, StoppingEndsAll) {
  auto watch = Begin(0);
  ASSERT_TRUE(loop_.Eventually([this] { return hub_->watchers() == 1; }));
  loop_.Do([this] { hub_->Stop(); });
  EXPECT_EQ(watch.get(), board::kNoVersion);
}

}  // namespace
}  // namespace isthmus::relay
