#include "isthmus/net/within.h"

#include <gtest/gtest.h>

#include "isthmus/net/wakeup.h"
#include "tests/support/errors.h"
#include "tests/support/net.h"

namespace isthmus::net {
namespace {

using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;

constexpr Milliseconds kLong(20'000);

Task<int> Give(int value) { co_return value; }

Task<int> Fail() {
  Throw(ErrorCode::kConflict, "its own error");
  co_return 0;
}

// Waits for ever; says in `ended` that it was cancelled.
Task<void> Hang(bool* ended) {
  Wakeup never;
  try {
    co_await never.Wait();
  } catch (const boost::system::system_error&) {
    *ended = true;
    throw;
  }
}

TEST(WithinTest, ResultsAndErrorsPass) {
  LoopThread loop;
  EXPECT_EQ(loop.Run([] { return Within(kLong, Give(7), "give"); }), 7);
  ExpectError(
      ErrorCode::kConflict, [&] { loop.Run([] { return Within(kLong, Fail(), "fail"); }); },
      "its own error");
  loop.Run([] { return Within(kLong, Sleep(Milliseconds(1)), "sleep"); });
}

TEST(WithinTest, WhatTakesTooLongIsCancelledAndNamed) {
  LoopThread loop;
  bool ended = false;
  ExpectError(
      ErrorCode::kUnavailable,
      [&] { loop.Run([&] { return Within(Milliseconds(5), Hang(&ended), "ask the moon"); }); },
      "ask the moon: not done within 5 ms");
  EXPECT_TRUE(ended);
}

TEST(WithinTest, ALimitThatIsOverEndsWhatWaits) {
  LoopThread loop;
  bool ended = false;
  ExpectError(
      ErrorCode::kUnavailable,
      [&] { loop.Run([&] { return Within(Milliseconds(-1), Hang(&ended), "hang"); }); }, "hang");
  EXPECT_TRUE(ended);
}

TEST(WithinTest, CancellingItCancelsTheTask) {
  LoopThread loop;
  bool inner = false;
  bool outer = false;
  ExpectError(
      ErrorCode::kUnavailable,
      [&] {
        loop.Run([&]() -> Task<void> {
          const auto limited = [&]() -> Task<void> {
            try {
              co_await Within(kLong, Hang(&inner), "inner");
            } catch (const boost::system::system_error&) {
              outer = true;
              throw;
            }
          };
          co_await Within(Milliseconds(5), limited(), "outer");
        });
      },
      "outer");
  EXPECT_TRUE(inner);
  EXPECT_TRUE(outer);
}

TEST(WithinTest, ALoopThatEndsTakesItAlong) {
  LoopThread loop;
  bool ended = false;
  auto pending = loop.Spawn([&] { return Within(kLong, Hang(&ended), "hang"); });
  loop.Do([] {});
}

}  // namespace
}  // namespace isthmus::net
