#include "isthmus/gateway/entrance.h"

#include <gtest/gtest.h>

#include "tests/support/net.h"

namespace isthmus::gateway {
namespace {

using isthmus::testing::LoopThread;
using isthmus::testing::Pending;
using net::Task;
using std::chrono::minutes;

class EntranceTest : public ::testing::Test {
 public:
  EntranceTest() {
    RoomLimits limits;
    limits.in_flight = 1;
    limits.queued = 2;
    loop_.Do([&] { entrance_.emplace(loop_.loop(), limits); });
  }
  ~EntranceTest() override {
    loop_.Do([&] {
      inside_.clear();
      entrance_.reset();
    });
  }

 protected:
  // Whether it was let in. If so it stays until LeaveOne.
  Pending<bool> Come(net::Milliseconds limit) {
    return loop_.Spawn([this, limit]() -> Task<bool> {
      Entrance::Arrival arrival = entrance_->Arrive("c", Priority::kTraining);
      bool in = arrival.entry == Entry::kIn;
      if (arrival.entry == Entry::kQueued) in = co_await entrance_->LetIn(arrival.pass, limit);
      if (in) inside_.push_back(std::move(arrival.pass));
      co_return in;
    });
  }
  void LeaveOne() {
    loop_.Do([&] { inside_.pop_back(); });
  }
  void AwaitQueued(size_t count) {
    while (loop_.Do([&] { return entrance_->queue().queued(); }) != count)
      std::this_thread::yield();
  }

  LoopThread loop_;
  std::optional<Entrance> entrance_;
  std::vector<Entrance::Pass> inside_;
};

TEST_F(EntranceTest, WhoWaitsIsLetInWhenAnotherLeaves) {
  EXPECT_TRUE(Come(minutes(1)).get());
  Pending<bool> second = Come(minutes(1));
  AwaitQueued(1);
  LeaveOne();
  EXPECT_TRUE(second.get());
  EXPECT_EQ(loop_.Do([&] { return entrance_->queue().in_flight(); }), 1);
}

TEST_F(EntranceTest, WhoWaitsTooLongIsNoLongerInTheQueue) {
  EXPECT_TRUE(Come(minutes(1)).get());
  EXPECT_FALSE(Come(net::Milliseconds(1)).get());
  AwaitQueued(0);
  LeaveOne();
  EXPECT_TRUE(Come(minutes(1)).get());
}

TEST_F(EntranceTest, BeyondTheQueueNobodyWaits) {
  EXPECT_TRUE(Come(minutes(1)).get());
  Pending<bool> second = Come(minutes(1));
  Pending<bool> third = Come(minutes(1));
  AwaitQueued(2);
  EXPECT_FALSE(Come(minutes(1)).get());
  LeaveOne();
  EXPECT_TRUE(second.get());
  LeaveOne();
  EXPECT_TRUE(third.get());
}

}  // namespace
}  // namespace isthmus::gateway
