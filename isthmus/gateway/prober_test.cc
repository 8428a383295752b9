#include "isthmus/gateway/prober.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isthmus/base/error.h"
#include "tests/support/net.h"

namespace isthmus::gateway {
namespace {

using isthmus::testing::LoopThread;
using isthmus::testing::TestServer;
using net::Exchange;
using net::Task;

constexpr std::string_view kInfo =
    R"({"ready":true,"run":"r","state":"ready","applied":7,"target":7,"board":{"newest":8}})";

// An island that answers what it is told to.
class FakeIsland {
 public:
  FakeIsland()
      : server_([this](Exchange& exchange) -> Task<void> {
          const auto authorization = exchange.request().headers.Find("Authorization");
          asked_.push_back(exchange.request().target);
          token_ = authorization.value_or("");
          if (silent_) co_await isthmus::testing::Pause(std::chrono::hours(1));
          net::ResponseHead head;
          head.status = status_;
          std::string body = body_;
          co_await exchange.Respond(std::move(head), body);
        }) {}

  net::Origin origin() const { return server_.origin(); }
  void Say(int status, std::string body, bool silent = false) {
    server_.loop().Do([&] {
      status_ = status;
      body_ = std::move(body);
      silent_ = silent;
    });
  }
  std::string token() {
    return server_.loop().Do([&] { return token_; });
  }
  size_t asked() {
    return server_.loop().Do([&] { return asked_.size(); });
  }

 private:
  int status_ = 200;
  bool silent_ = false;
  std::string body_ = std::string(kInfo);
  std::string token_;
  std::vector<std::string> asked_;
  TestServer server_;
};

class ProberTest : public ::testing::Test {
 public:
  ~ProberTest() override {
    loop_.Do([&] { prober_.reset(); });
  }

 protected:
  void Start(const std::vector<ListedIsland>& islands, ProberOptions options = {},
             std::string token = "") {
    options.every = milliseconds(5);
    loop_.Do([&] {
      pool_.SetListed(islands, MonotonicNow());
      prober_.emplace(loop_.loop(), options, pool_, [this] { ++news_; });
      prober_->set_token(std::move(token));
      prober_->Start();
    });
  }
  bool Becomes(std::string_view id, IslandState state, std::string_view reason = "") {
    return loop_.Eventually([&] {
      for (const IslandFacts& facts : pool_.Facts(MonotonicNow())) {
        if (facts.id != id) continue;
        return facts.state == state && facts.reason.find(reason) != std::string::npos;
      }
      return false;
    });
  }

  LoopThread loop_;
  Pool pool_{PoolOptions{}};
  size_t news_ = 0;
  std::optional<Prober> prober_;
};

TEST_F(ProberTest, ReadsWhatIslandsSay) {
  FakeIsland island;
  Start({{"a", island.origin()}}, {}, "secret");
  EXPECT_TRUE(Becomes("a", IslandState::kReady));
  EXPECT_EQ(island.token(), "Bearer secret");
  EXPECT_EQ(loop_.Do([&] { return pool_.snapshot().islands.at(0).served; }), 7U);
  EXPECT_EQ(loop_.Do([&] { return pool_.snapshot().runs.at(0).newest; }), 8U);
  EXPECT_GT(loop_.Do([&] { return news_; }), 0U);
}

TEST_F(ProberTest, WhatIsNoReportIsAReasonToSuspect) {
  FakeIsland island;
  Start({{"a", island.origin()}});
  EXPECT_TRUE(Becomes("a", IslandState::kReady));
  island.Say(401, "{}");
  EXPECT_TRUE(Becomes("a", IslandState::kSuspect, "answered 401"));
  island.Say(200, R"({"ready":true,"run":"../etc","state":"ready","applied":7})");
  EXPECT_TRUE(Becomes("a", IslandState::kSuspect, "run name"));
  island.Say(200, std::string(kMaxReportBytes + 1, ' '));
  EXPECT_TRUE(Becomes("a", IslandState::kSuspect, "more than"));
  island.Say(200, "<html>");
  EXPECT_TRUE(Becomes("a", IslandState::kSuspect, "not JSON"));
  EXPECT_GT(loop_.Do([&] { return prober_->counters().failed; }), 4U);
}

TEST_F(ProberTest, ASilentIslandHoldsNobodyUp) {
  FakeIsland silent;
  FakeIsland island;
  silent.Say(200, "", true);
  Start({{"silent", silent.origin()}, {"a", island.origin()}},
        {.limit = milliseconds(50), .at_once = 1});
  EXPECT_TRUE(Becomes("a", IslandState::kReady));
  EXPECT_TRUE(Becomes("silent", IslandState::kSuspect, "not done within 50 ms"));
}

TEST_F(ProberTest, AnIslandThatIsNotThereIsSuspect) {
  net::Origin nowhere;
  {
    const TestServer gone([](Exchange&) -> Task<void> { co_return; });
    nowhere = gone.origin();
  }
  Start({{"a", nowhere}});
  EXPECT_TRUE(Becomes("a", IslandState::kSuspect, nowhere.Authority()));
}

TEST_F(ProberTest, StopsWithAQuestionUnderWay) {
  FakeIsland silent;
  silent.Say(200, "", true);
  Start({{"a", silent.origin()}});
  for (int i = 0; i < 10'000 && silent.asked() == 0; ++i) {
    loop_.Run([]() -> Task<void> { co_await isthmus::testing::Pause(milliseconds(1)); });
  }
  EXPECT_EQ(silent.asked(), 1U);
  loop_.Do([&] { prober_->Stop(); });
  EXPECT_EQ(loop_.Do([&] { return news_; }), 0U);
}

}  // namespace
}  // namespace isthmus::gateway
