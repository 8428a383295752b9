#include "isthmus/gateway/fair_queue.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/fair_queue_oracle.h"
#include "tests/support/seed.h"

namespace isthmus::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::FairQueueOracle;
using ::testing::IsEmpty;

constexpr MonotonicTime kStart{seconds(1000)};
constexpr Priority kTraining = Priority::kTraining, kEvaluation = Priority::kEvaluation;

// A request that went in or waits.
TicketId Enter(FairQueue& queue, const std::string& client, Entry expected,
               Priority priority = kTraining, MonotonicTime now = kStart) {
  const FairQueue::Arrival arrival = queue.Arrive(client, priority, now);
  EXPECT_EQ(arrival.entry, expected);
  return arrival.ticket;
}

TEST(FairQueueTest, LetsInAsManyAsThereIsRoomFor) {
  FairQueue queue({.in_flight = 2});
  const TicketId first = Enter(queue, "a", Entry::kIn);
  Enter(queue, "a", Entry::kIn);
  const TicketId third = Enter(queue, "a", Entry::kQueued);
  EXPECT_THAT(queue.Next(kStart), IsEmpty());
  queue.Leave(first);
  EXPECT_THAT(queue.Next(kStart), ElementsAre(third));
  EXPECT_EQ(queue.in_flight(), 2);
  EXPECT_EQ(queue.queued(), 0);
}

TEST(FairQueueTest, ShedsWhatItHasNoPlaceFor) {
  FairQueue queue({.in_flight = 1, .queued = 2});
  Enter(queue, "a", Entry::kIn);
  Enter(queue, "a", Entry::kQueued);
  Enter(queue, "b", Entry::kQueued);
  EXPECT_EQ(Enter(queue, "c", Entry::kShed), 0);
  EXPECT_EQ(queue.shed(), 1);
  EXPECT_EQ(queue.queued(), 2);
  EXPECT_EQ(queue.clients(), 2) << "who was shed is not remembered";
}

TEST(FairQueueTest, AFullQueueKeepsOutNobodyWhoNeedNotWait) {
  FairQueue queue({.in_flight = 2, .queued = 1, .client_in_flight = 1});
  Enter(queue, "a", Entry::kIn);
  Enter(queue, "a", Entry::kQueued);
  Enter(queue, "a", Entry::kShed);
  Enter(queue, "b", Entry::kIn);
}

TEST(FairQueueTest, OneClientLeavesPlacesToOthers) {
  FairQueue queue({.in_flight = 1, .queued = 900});
  Enter(queue, "a", Entry::kIn);
  for (int i = 0; i < 2000; ++i) queue.Arrive("a", kEvaluation, kStart);
  EXPECT_EQ(queue.queued(), 800);
  Enter(queue, "a", Entry::kQueued, kTraining);
  Enter(queue, "b", Entry::kQueued);
}

TEST(FairQueueTest, LeavingTwiceIsAnError) {
  FairQueue queue({.in_flight = 1});
  const TicketId in = Enter(queue, "a", Entry::kIn);
  const TicketId waits = Enter(queue, "a", Entry::kQueued);
  testing::ExpectError(
      ErrorCode::kInternal, [&] { queue.Leave(waits); }, "not in flight");
  queue.Leave(in);
  testing::ExpectError(
      ErrorCode::kInternal, [&] { queue.Leave(in); }, "not in flight");
}

TEST(FairQueueTest, WhoHasGoneIsNotLetIn) {
  FairQueue queue({.in_flight = 1});
  const TicketId in = Enter(queue, "a", Entry::kIn);
  const TicketId gone = Enter(queue, "b", Entry::kQueued);
  EXPECT_TRUE(queue.Withdraw(gone));
  EXPECT_FALSE(queue.Withdraw(gone));
  EXPECT_FALSE(queue.Withdraw(in));
  queue.Leave(in);
  EXPECT_THAT(queue.Next(kStart), IsEmpty());
  EXPECT_EQ(queue.clients(), 0);
}

TEST(FairQueueTest, AClientAtItsLimitHoldsUpNobody) {
  FairQueue queue({.in_flight = 10, .client_in_flight = 1});
  const TicketId first = Enter(queue, "a", Entry::kIn);
  const TicketId second = Enter(queue, "a", Entry::kQueued);
  Enter(queue, "b", Entry::kIn);
  EXPECT_THAT(queue.Next(kStart), IsEmpty());
  queue.Leave(first);
  EXPECT_THAT(queue.Next(kStart), ElementsAre(second));
}

TEST(FairQueueTest, ARateLetsInABurstAndThenOneAtATime) {
  FairQueue queue({.client_rate = 4});
  for (int i = 0; i < 4; ++i) Enter(queue, "a", Entry::kIn);
  EXPECT_EQ(queue.next_instant(), std::nullopt);
  const TicketId fifth = Enter(queue, "a", Entry::kQueued);
  const TicketId sixth = Enter(queue, "a", Entry::kQueued);
  ASSERT_EQ(queue.next_instant(), kStart + milliseconds(250));
  EXPECT_THAT(queue.Next(kStart + milliseconds(249)), IsEmpty());
  EXPECT_THAT(queue.Next(kStart + milliseconds(250)), ElementsAre(fifth));
  EXPECT_EQ(queue.next_instant(), kStart + milliseconds(500));
  EXPECT_THAT(queue.Next(kStart + milliseconds(500)), ElementsAre(sixth));
}

TEST(FairQueueTest, ARateBelowOneASecondLetsInOne) {
  FairQueue queue({.client_rate = 0.1});
  Enter(queue, "a", Entry::kIn);
  Enter(queue, "a", Entry::kQueued);
  EXPECT_EQ(queue.next_instant(), kStart + seconds(10));
}

TEST(FairQueueTest, WhoMayGoSinceAnInstantIsNotForgottenByAnArrival) {
  FairQueue queue({.client_rate = 1});
  Enter(queue, "a", Entry::kIn);
  const TicketId second = Enter(queue, "a", Entry::kQueued);
  const MonotonicTime later = kStart + seconds(2);
  Enter(queue, "b", Entry::kQueued, kTraining, later);
  EXPECT_EQ(queue.next_instant(), later);
  EXPECT_EQ(queue.Next(later).front(), second);
}

TEST(FairQueueTest, ClientsAreRememberedForTheirRateOnly) {
  FairQueue without({});
  without.Leave(Enter(without, "a", Entry::kIn));
  EXPECT_EQ(without.clients(), 0);
  FairQueue queue({.client_rate = 1});
  queue.Leave(Enter(queue, "a", Entry::kIn));
  EXPECT_EQ(queue.clients(), 1);
  queue.Next(kStart + milliseconds(999));
  EXPECT_EQ(queue.clients(), 1);
  queue.Next(kStart + seconds(1));
  EXPECT_EQ(queue.clients(), 0);
}

TEST(FairQueueTest, OfClientsWithoutEndNoMoreThanItsBoundAreRemembered) {
  FairQueue queue({.client_rate = 0.001});
  for (int i = 0; i < 120'000; ++i) {
    queue.Leave(Enter(queue, fmt::format("client-{}", i), Entry::kIn));
  }
  EXPECT_LE(queue.clients(), 100'001);
}

TEST(FairQueueTest, ClientsTakeTurns) {
  FairQueue queue({.in_flight = 1});
  TicketId in = Enter(queue, "x", Entry::kIn);
  std::map<TicketId, std::string> clients;
  for (const char* client : {"a", "a", "a", "b", "b", "c"}) {
    clients[Enter(queue, client, Entry::kQueued)] = client;
  }
  std::string order;
  while (queue.queued() > 0) {
    queue.Leave(in);
    in = queue.Next(kStart).at(0);
    order += clients.at(in);
  }
  EXPECT_EQ(order, "abcaba");
}

TEST(FairQueueTest, TenThousandRequestsOfOneDelayAnotherByOneTurn) {
  FairQueue queue({.in_flight = 4, .queued = 20'000});
  std::vector<TicketId> in(4);
  for (TicketId& ticket : in) ticket = Enter(queue, "many", Entry::kIn);
  for (int i = 0; i < 10'000; ++i) Enter(queue, "many", Entry::kQueued);
  for (int round = 0; round < 100; ++round) {
    const TicketId other = Enter(queue, "other", Entry::kQueued);
    std::vector<TicketId> admitted;
    for (int i = 0; i < 2; ++i) {
      queue.Leave(in.front());
      in.erase(in.begin());
      for (const TicketId ticket : queue.Next(kStart)) in.push_back(ticket);
    }
    ASSERT_THAT(in, ::testing::Contains(other));
    queue.Leave(other);
    std::erase(in, other);
    for (const TicketId ticket : queue.Next(kStart)) in.push_back(ticket);
  }
}

// What goes in, one after another, while both priorities always wait and each ends at once.
TEST(FairQueueTest, OfBothPrioritiesEvaluationGetsOneTurnInFive) {
  FairQueue queue({.in_flight = 1});
  TicketId in = Enter(queue, "a", Entry::kIn);
  std::map<TicketId, Priority> priorities;
  for (int i = 0; i < 1000; ++i) {
    priorities[Enter(queue, "a", Entry::kQueued, kTraining)] = kTraining;
    priorities[Enter(queue, "b", Entry::kQueued, kEvaluation)] = kEvaluation;
  }
  std::vector<Priority> order;
  for (int i = 0; i < 500; ++i) {
    queue.Leave(in);
    in = queue.Next(kStart).at(0);
    order.push_back(priorities.at(in));
  }
  for (size_t i = 0; i + 5 <= order.size(); i += 5) {
    EXPECT_EQ(std::count(order.begin() + static_cast<int>(i),
                         order.begin() + static_cast<int>(i) + 5, kEvaluation),
              1);
  }
}

TEST(FairQueueTest, EvaluationGetsAtMostAQuarterOfTheRoomWhileTrainingWaits) {
  FairQueue queue({.in_flight = 20});
  std::vector<TicketId> training, evaluation;
  for (int i = 0; i < 20; ++i) training.push_back(Enter(queue, "t", Entry::kIn));
  std::map<TicketId, Priority> priorities;
  for (int i = 0; i < 100; ++i) {
    priorities[Enter(queue, "e", Entry::kQueued, kEvaluation)] = kEvaluation;
    priorities[Enter(queue, "t", Entry::kQueued)] = kTraining;
  }
  // Evaluation never ends.
  for (int i = 0; i < 60; ++i) {
    queue.Leave(training.back());
    training.pop_back();
    for (const TicketId ticket : queue.Next(kStart)) {
      (priorities.at(ticket) == kTraining ? training : evaluation).push_back(ticket);
    }
    ASSERT_LE(evaluation.size(), 5);
  }
  EXPECT_EQ(evaluation.size(), 5);
}

TEST(FairQueueTest, EvaluationHasAllTheRoomWhenNoTrainingWaits) {
  FairQueue queue({.in_flight = 20});
  for (int i = 0; i < 20; ++i) Enter(queue, "e", Entry::kIn, kEvaluation);
}

// ---- Against the plain rules.

struct Play {
  RoomLimits limits;
  std::chrono::nanoseconds interval;
  double arrivals;  // of all events
};

void Compare(const Play& play, std::mt19937& random) {
  FairQueue queue(play.limits);
  FairQueueOracle oracle(play.limits, play.interval);
  MonotonicTime now = kStart;
  oracle.Next(now);
  const auto below = [&](size_t end) { return random() % end; };
  for (int i = 0; i < 1'500; ++i) {
    if (below(3) == 0) now += milliseconds(below(300));
    if (static_cast<double>(below(1000)) < 1000 * play.arrivals) {
      const std::string client = fmt::format("{}", below(1 + below(6)));
      const Priority priority = below(3) == 0 ? kEvaluation : kTraining;
      const FairQueue::Arrival got = queue.Arrive(client, priority, now);
      const FairQueue::Arrival expected = oracle.Arrive(client, priority, now);
      ASSERT_EQ(got.entry, expected.entry) << "event " << i;
    } else if (const bool leaves = below(4) != 0; !oracle.Tickets(leaves).empty()) {
      const std::vector<TicketId> tickets = oracle.Tickets(leaves);
      const TicketId ticket = tickets[below(tickets.size())];
      if (leaves) {
        queue.Leave(ticket);
        oracle.Leave(ticket);
      } else {
        ASSERT_EQ(queue.Withdraw(ticket), oracle.Withdraw(ticket));
      }
    }
    if (below(8) != 0) {
      ASSERT_EQ(queue.Next(now), oracle.Next(now)) << "event " << i;
      if (queue.in_flight() < play.limits.in_flight) {
        ASSERT_EQ(queue.next_instant(), oracle.NextInstant()) << "event " << i;
      }
    }
    ASSERT_EQ(queue.in_flight(), oracle.in_flight());
    ASSERT_EQ(queue.queued(), oracle.queued());
    ASSERT_LE(queue.in_flight(), play.limits.in_flight);
    ASSERT_LE(queue.queued(), play.limits.queued);
  }
  for (const bool in_flight : {false, true}) {
    for (const TicketId ticket : oracle.Tickets(in_flight)) {
      in_flight ? queue.Leave(ticket) : static_cast<void>(queue.Withdraw(ticket));
    }
  }
  queue.Next(now + seconds(3600));
  EXPECT_EQ(queue.clients(), 0);
}

TEST(FairQueuePropertyTest, DoesAsThePlainRulesSay) {
  std::mt19937 random(testing::TestSeed());
  for (int i = 0; i < 60; ++i) {
    Play play;
    play.limits.in_flight = 1 + random() % 12;
    play.limits.queued = 1 + random() % 40;
    play.limits.client_in_flight = random() % 4;
    constexpr int kRates[] = {0, 0, 1, 2, 4, 8};
    const int rate = kRates[random() % 6];
    play.limits.client_rate = rate;
    play.interval = std::chrono::nanoseconds(rate == 0 ? 0 : 1'000'000'000 / rate);
    play.arrivals = random() % 2 == 0 ? 0.5 : 0.7;
    ASSERT_NO_FATAL_FAILURE(Compare(play, random)) << "play " << i;
  }
}

}  // namespace
}  // namespace isthmus::gateway
