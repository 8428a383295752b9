#include "isthmus/sidecar/presence.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/net.h"

namespace isthmus::sidecar {
namespace {

using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;
using isthmus::testing::Pending;
using isthmus::testing::RawListener;
using isthmus::testing::RawSocket;
using net::Task;

class PresenceTest : public ::testing::Test {
 public:
  PresenceTest() {
    loop_.Do([&] {
      presence_.emplace(loop_.loop(), std::vector{one_.origin(), two_.origin()});
      presence_->set_on_doubt([&] { ++doubts_; });
    });
  }
  ~PresenceTest() override {
    loop_.Do([&] { presence_.reset(); });
  }

 protected:
  void Arm() {
    loop_.Run([&]() -> Task<void> { co_await presence_->Arm(); });
  }
  void Prove() {
    loop_.Do([&] { presence_->Prove(); });
  }
  bool proven() {
    return loop_.Do([&] { return presence_->proven(); });
  }
  bool Doubted(int times) {
    return loop_.Eventually([&] { return doubts_ == times; });
  }
  // Ends when the answer that waits may leave.
  Pending<bool> Answer() {
    auto answer = loop_.Spawn([&]() -> Task<bool> {
      ++waiting_;
      co_await presence_->UntilProven();
      co_return true;
    });
    loop_.Eventually([&] { return waiting_ > 0; });
    return answer;
  }

  LoopThread loop_;
  RawListener one_, two_;
  std::optional<Presence> presence_;
  int doubts_ = 0;   // of the loop's thread
  int waiting_ = 0;  // likewise
};

TEST_F(PresenceTest, IsProvenBetweenAProofAndTheFirstCut) {
  EXPECT_FALSE(proven());
  Arm();
  const RawSocket one = one_.Accept();
  RawSocket two = two_.Accept();
  EXPECT_FALSE(proven());
  Prove();
  EXPECT_TRUE(proven());
  two.Close();
  EXPECT_TRUE(Doubted(1));
  EXPECT_FALSE(proven());
}

TEST_F(PresenceTest, AProofWithoutNewWiresProvesNothing) {
  Arm();
  const RawSocket one = one_.Accept();
  RawSocket two = two_.Accept();
  two.Close();
  EXPECT_TRUE(Doubted(1));
  Prove();
  EXPECT_FALSE(proven());
  Arm();
  const RawSocket again = two_.Accept();
  EXPECT_FALSE(proven());  // what was asked before is forgotten
  Prove();
  EXPECT_TRUE(proven());
}

TEST_F(PresenceTest, AnswersWaitForTheProof) {
  Arm();
  const RawSocket one = one_.Accept();
  const RawSocket two = two_.Accept();
  Pending<bool> first = Answer();
  Pending<bool> second = Answer();
  Prove();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
}

TEST_F(PresenceTest, WhoWaitsWhenNobodyAsksAnyMoreGetsAnError) {
  Pending<bool> answer = Answer();
  loop_.Do([&] { presence_->Close(); });
  ExpectError(
      ErrorCode::kUnavailable, [&] { answer.get(); }, "pass on an answer");
}

TEST_F(PresenceTest, ADoubtIsNoCut) {
  Arm();
  const RawSocket one = one_.Accept();
  const RawSocket two = two_.Accept();
  Prove();
  loop_.Do([&] { presence_->Doubt(); });
  EXPECT_FALSE(proven());
  Arm();
  Prove();
  EXPECT_TRUE(proven());
}

TEST_F(PresenceTest, AServerThatEndsIdleConnectionsAtOnceIsLeftToTheLooks) {
  constexpr int kLives = 5;
  Arm();
  std::optional<RawSocket> one(one_.Accept());
  const RawSocket two = two_.Accept();
  for (int life = 1; life <= kLives; ++life) {
    one->Close();
    ASSERT_TRUE(Doubted(life));
    Arm();
    Prove();
    if (life < kLives) one.emplace(one_.Accept());
  }
  EXPECT_TRUE(proven());
  loop_.Do([&] { presence_->Forget(); });  // another program may be more patient
  Arm();
  Prove();
  EXPECT_TRUE(proven());
  one_.Accept().Close();
  EXPECT_TRUE(Doubted(kLives + 1));
  EXPECT_FALSE(proven());
}

}  // namespace
}  // namespace isthmus::sidecar
