#include "isthmus/net/tripwire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/net.h"

namespace isthmus::net {
namespace {

using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;
using isthmus::testing::RawListener;
using isthmus::testing::RawSocket;

constexpr Milliseconds kLimit{10'000};

class TripwireTest : public ::testing::Test {
 public:
  ~TripwireTest() override {
    loop_.Do([&] { wire_.reset(); });
  }

 protected:
  void Lay(const Origin& origin) {
    loop_.Do([&] { wire_.emplace(loop_.loop(), origin, [&] { ++cuts_; }); });
  }
  void Arm() {
    loop_.Run([&]() -> Task<void> { co_await wire_->Arm(kLimit); });
  }
  bool intact() {
    return loop_.Do([&] { return wire_->intact(); });
  }
  bool Cut(int times) {
    return loop_.Eventually([&] { return cuts_ == times; });
  }

  LoopThread loop_;
  std::optional<Tripwire> wire_;
  int cuts_ = 0;  // of the loop's thread
};

TEST_F(TripwireTest, IsNotIntactBeforeItIsArmed) {
  const RawListener listener;
  Lay(listener.origin());
  EXPECT_FALSE(intact());
}

TEST_F(TripwireTest, StaysIntactWhenArmedAgain) {
  const RawListener listener;
  Lay(listener.origin());
  Arm();
  const RawSocket server = listener.Accept();
  Arm();
  EXPECT_TRUE(intact());
  EXPECT_EQ(loop_.Do([&] { return cuts_; }), 0);
}

TEST_F(TripwireTest, AnEndAResetAndAWordOfTheServerCutIt) {
  const RawListener listener;
  Lay(listener.origin());
  int cuts = 0;
  for (const auto& end : std::initializer_list<void (*)(RawSocket&)>{
           [](RawSocket& server) { server.Close(); }, [](RawSocket& server) { server.Reset(); },
           [](RawSocket& server) { server.Send("HTTP/1.1 408 Request Timeout\r\n\r\n"); },
           [](RawSocket& server) { server.EndSending(); }}) {
    Arm();
    RawSocket server = listener.Accept();
    EXPECT_TRUE(intact());
    end(server);
    EXPECT_TRUE(Cut(++cuts));
    EXPECT_FALSE(intact());
  }
}

// What the kernel knows counts, not what the loop was told: the order in which a loop learns of two
// sockets is anybody's guess.
TEST_F(TripwireTest, IsFoundCutBeforeTheLoopIsTold) {
  const RawListener listener;
  Lay(listener.origin());
  Arm();
  RawSocket server = listener.Accept();
  const bool was_intact = loop_.Do([&] {
    server.Close();
    return wire_->intact() || cuts_ > 0;
  });
  EXPECT_FALSE(was_intact);
  EXPECT_TRUE(Cut(1));
}

TEST_F(TripwireTest, NobodyThereIsAnErrorThatNamesTheAddress) {
  const Origin gone = RawListener().origin();
  Lay(gone);
  ExpectError(
      ErrorCode::kUnavailable, [&] { Arm(); }, "connect to " + gone.Authority());
  EXPECT_FALSE(intact());
}

TEST_F(TripwireTest, MayEndWhileItWatches) {
  const RawListener listener;
  Lay(listener.origin());
  Arm();
  RawSocket server = listener.Accept();
  loop_.Do([&] { wire_.reset(); });
  EXPECT_EQ(server.Receive(), "");
  EXPECT_EQ(loop_.Do([&] { return cuts_; }), 0);
}

}  // namespace
}  // namespace isthmus::net
