#include "isthmus/base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/support/errors.h"

namespace isthmus {
namespace {

using testing::ExpectError;

TEST(ThreadPoolTest, RunsEveryIndexOnce) {
  for (size_t threads : {1u, 2u, 5u, 16u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.thread_count(), threads);
    for (size_t count : {0u, 1u, 2u, 3u, 1000u}) {
      std::vector<std::atomic<int>> runs(count);
      pool.ParallelFor(count, [&](size_t i) { ++runs[i]; });
      EXPECT_TRUE(std::ranges::all_of(runs, [](const auto& n) { return n == 1; }));
    }
  }
}

TEST(ThreadPoolTest, WithoutACountUsesTheCoresItMayUse) {
  const ThreadPool pool;
  EXPECT_GE(pool.thread_count(), 1u);
}

TEST(ThreadPoolTest, OneThreadRunsAllInOrderOnTheCallersThread) {
  ThreadPool pool(1);
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<size_t> order;
  pool.ParallelFor(100, [&](size_t i) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(i);
  });
  std::vector<size_t> expected(100);
  std::iota(expected.begin(), expected.end(), size_t{0});
  EXPECT_EQ(order, expected);
}

TEST(ThreadPoolTest, WorkIsSharedByAsManyThreadsAsThePoolHas) {
  // Each task waits until all have started: it ends only if every one has its own thread.
  ThreadPool pool(4);
  std::atomic<int> started = 0;
  pool.ParallelFor(4, [&](size_t) {
    ++started;
    while (started < 4) std::this_thread::yield();
  });
  EXPECT_EQ(started, 4);
}

TEST(ThreadPoolTest, RethrowsTheFirstErrorAndStartsNothingAfterIt) {
  ThreadPool pool(1);
  size_t runs = 0;
  const auto work = [&] {
    pool.ParallelFor(10, [&](size_t i) {
      ++runs;
      if (i >= 3) Throw(ErrorCode::kCorrupt, "task {}", i);
    });
  };
  ExpectError(ErrorCode::kCorrupt, work, "task 3");
  EXPECT_EQ(runs, 4u);
}

TEST(ThreadPoolTest, RethrowsAnErrorOfAnyThreadAndStaysUsable) {
  ThreadPool pool(5);
  for (int round = 0; round < 100; ++round) {
    const auto work = [&] {
      pool.ParallelFor(50, [](size_t i) {
        if (i % 2 == 1) Throw(ErrorCode::kConflict, "task failed");
      });
    };
    ExpectError(ErrorCode::kConflict, work, "task failed");
  }
  std::atomic<size_t> sum = 0;
  pool.ParallelFor(100, [&](size_t i) { sum += i; });
  EXPECT_EQ(sum, 4950u);
}

}  // namespace
}  // namespace isthmus
