#include "isthmus/sidecar/gate_keeper.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/net.h"

namespace isthmus::sidecar {
namespace {

using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;
using isthmus::testing::Pending;
using net::Task;
namespace asio = net::asio;

Request AtLeast(VersionNumber version, std::optional<milliseconds> wait = std::nullopt) {
  Request request;
  request.constraint.min_version = version;
  request.wait_ms = wait;
  return request;
}

class GateKeeperTest : public ::testing::Test {
 public:
  GateKeeperTest() {
    GateOptions options;
    options.run = "r";
    loop_.Do([&] {
      keeper_.emplace(loop_.loop(), options);
      keeper_->Learn(5);
      keeper_->Open(1);
    });
  }
  ~GateKeeperTest() override {
    loop_.Do([&] { keeper_.reset(); });
  }

 protected:
  // A request that notes "NAME VERSION" or "NAME refused" when it is decided, and ends at once.
  Pending<void> Send(const std::string& name, const Request& request) {
    return loop_.Spawn([this, name, request]() -> Task<void> {
      const Admission admission = co_await keeper_->Admit(request);
      const Decision& decision = admission.decision();
      notes_.push_back(admission.admitted() ? fmt::format("{} {}", name, decision.version)
                                            : fmt::format("{} refused", name));
    });
  }
  size_t Waiting() {
    return loop_.Do([&] { return keeper_->gate().waiting(); });
  }
  bool AllWait(size_t count) {
    return loop_.Eventually([&] { return keeper_->gate().waiting() == count; });
  }
  std::vector<std::string> notes() {
    return loop_.Do([&] { return notes_; });
  }
  void SwitchTo(VersionNumber version) {
    keeper_->Close(DrainPolicy::kInPlace, version);
    keeper_->BeginCommit();
    keeper_->Open(version);
  }

  LoopThread loop_;
  std::optional<GateKeeper> keeper_;
  std::vector<std::string> notes_;
};

TEST_F(GateKeeperTest, ASatisfiedRequestIsAdmittedAtOnceAndLeavesWhenItIsDestroyed) {
  Send("a", AtLeast(1)).get();
  EXPECT_EQ(notes(), std::vector<std::string>{"a 1"});
  EXPECT_EQ(loop_.Do([&] { return keeper_->gate().in_flight(); }), 0u);
}

TEST_F(GateKeeperTest, ThoseThatWaitAreLetInInOrderOfArrivalWhenTheGateOpens) {
  std::vector<Pending<void>> pending;
  std::vector<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    pending.push_back(Send(std::to_string(i), AtLeast(2, milliseconds(60'000))));
    expected.push_back(fmt::format("{} 2", i));
  }
  ASSERT_TRUE(AllWait(100));
  loop_.Do([&] { SwitchTo(2); });
  for (auto& each : pending) each.get();
  EXPECT_EQ(notes(), expected);
}

TEST_F(GateKeeperTest, WhoeverWaitsIsAnnounced) {
  int announced = 0;
  loop_.Do([&] { keeper_->set_on_waiting([&] { ++announced; }); });
  Send("now", AtLeast(1)).get();
  auto later = Send("later", AtLeast(2, milliseconds(60'000)));
  ASSERT_TRUE(AllWait(1));
  EXPECT_EQ(loop_.Do([&] { return announced; }), 1);
  loop_.Do([&] { keeper_->Poison(); });
  later.get();
  EXPECT_EQ(notes().back(), "later refused");
}

TEST_F(GateKeeperTest, ADeadlineEndsTheWaitWithoutAnyOtherCall) {
  Send("a", AtLeast(2, milliseconds(20))).get();
  EXPECT_EQ(notes(), std::vector<std::string>{"a refused"});
  // A shorter deadline moves the timer forward.
  auto slow = Send("slow", AtLeast(2, milliseconds(60'000)));
  ASSERT_TRUE(AllWait(1));
  Send("quick", AtLeast(2, milliseconds(20))).get();
  EXPECT_EQ(notes().back(), "quick refused");
  loop_.Do([&] { SwitchTo(2); });
  slow.get();
  EXPECT_EQ(notes().back(), "slow 2");
}

TEST_F(GateKeeperTest, ACancelledRequestIsWithdrawn) {
  asio::cancellation_signal cancel;
  bool ended = false;
  loop_.Do([&] {
    asio::co_spawn(
        loop_.loop(),
        [this]() -> Task<void> { co_await keeper_->Admit(AtLeast(2, milliseconds(60'000))); },
        asio::bind_cancellation_slot(
            cancel.slot(), [&](const std::exception_ptr& error) { ended = error != nullptr; }));
  });
  ASSERT_TRUE(AllWait(1));
  loop_.Do([&] { cancel.emit(asio::cancellation_type::terminal); });
  EXPECT_TRUE(loop_.Eventually([&] { return ended; }));
  EXPECT_EQ(Waiting(), 0u);
}

TEST_F(GateKeeperTest, AnAbortReachesTheRequestAndTheDrainWaitsForItsEnd) {
  net::Wakeup aborted;
  bool drained = false;
  auto request = loop_.Spawn([&]() -> Task<std::string> {
    Admission admission = co_await keeper_->Admit(AtLeast(1));
    admission.OnAbort([&] { aborted.Fire(); });
    if (!admission.aborted()) co_await aborted.Wait();
    EXPECT_FALSE(drained);
    const Stamp stamp = admission.stamp();
    admission.Finish();
    admission.Finish();
    co_return fmt::format("{} {}", stamp.start, admission.stamp().end);
  });
  ASSERT_TRUE(loop_.Eventually([&] { return keeper_->gate().in_flight() == 1; }));
  loop_.Run([&]() -> Task<void> {
    keeper_->Close(DrainPolicy::kAbort, 2);
    co_await keeper_->Drained();
    drained = true;
  });
  EXPECT_EQ(request.get(), "1 1");
}

TEST_F(GateKeeperTest, AMalformedRequestIsInvalid) {
  ExpectError(
      ErrorCode::kInvalid,
      [&] {
        Request request = AtLeast(3);
        request.constraint.exact_version = 2;
        Send("a", request).get();
      },
      "exact");
}

}  // namespace
}  // namespace isthmus::sidecar
