// Random sequences of events, legal and illegal ones, against tests/support/gate_oracle.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "isthmus/sidecar/gate.h"
#include "tests/support/errors.h"
#include "tests/support/gate_oracle.h"
#include "tests/support/seed.h"

namespace isthmus::sidecar {
namespace {

constexpr int kSequences = 4'000;
constexpr int kEvents = 250;

// Small enough that every bound and every limit is met often.
GateOptions SmallOptions(std::mt19937* random) {
  GateOptions options;
  options.run = "grpo-7";
  if ((*random)() % 10 == 0) options.island_pin = 42;
  options.max_waiting = 6;
  options.max_in_flight = 8;
  options.closed_limit = milliseconds(50);
  options.drain_limit = milliseconds(80);
  options.hold_limit = milliseconds(100);
  options.sessions = {3, milliseconds(30), milliseconds(120)};
  return options;
}

class Model {
 public:
  // Adds the reasons that were given to `seen`.
  Model(unsigned seed, std::set<Reason>* seen)
      : random_(seed),
        options_(SmallOptions(&random_)),
        gate_(options_),
        oracle_(options_),
        seen_(seen) {}

  void Step() {
    if (Draw(3) == 0) now_ += milliseconds(Draw(20));
    const unsigned event = Draw(100);
    if (event < 40) {
      Arrive();
    } else if (event < 55) {
      Leave();
    } else if (event < 63) {
      Same([](auto& it, MonotonicTime now) { return it.Advance(now); });
    } else if (event < 70) {
      const VersionNumber head = Version();
      Same([head](auto& it, MonotonicTime now) { return it.Learn(head, now); });
    } else if (event < 71) {
      const VersionNumber version = Version();
      Same([version](auto& it, MonotonicTime now) { return it.Revoke(version, now); });
    } else {
      Switch(event - 71);
    }
    Compare();
  }

 private:
  unsigned Draw(unsigned below) { return static_cast<unsigned>(random_() % below); }
  // Around what is served, mostly above.
  VersionNumber Version() {
    const VersionNumber around = oracle_.served == kNoVersion ? 42 : oracle_.served;
    return std::max<VersionNumber>(around + Draw(6), 3) - 2;
  }

  Request DrawRequest() {
    Request request;
    Constraint& constraint = request.constraint;
    if (Draw(3) == 0) constraint.min_version = Version();
    if (Draw(4) == 0) constraint.exact_version = constraint.min_version.value_or(Version());
    if (Draw(6) == 0) constraint.max_lag_versions = Draw(4);
    if (!constraint.max_lag_versions && Draw(6) == 0)
      constraint.max_lag_ms = milliseconds(Draw(90));
    if (Draw(20) == 0) constraint.run = Draw(2) == 0 ? "grpo-7" : "grpo-8";
    if (Draw(5) == 0) request.session = std::string(1, static_cast<char>('a' + Draw(5)));
    request.pin_session = !request.session.empty() && Draw(4) != 0;
    if (Draw(2) == 0) request.wait_ms = milliseconds(Draw(120));
    return request;
  }

  // An admission is right whatever the oracle thinks.
  void CheckDecision(const Decision& decision) {
    seen_->insert(decision.reason);
    if (decision.outcome != Outcome::kAdmitted) return;
    const auto at = std::ranges::find(oracle_.lives, decision.request, &GateOracle::Live::id);
    ASSERT_NE(at, oracle_.lives.end());
    const Constraint& constraint = at->request.constraint;
    ASSERT_EQ(gate_.state(), GateState::kReady);
    ASSERT_EQ(decision.version, gate_.served());
    ASSERT_FALSE(oracle_.IsRevoked(decision.version));
    ASSERT_GE(decision.version, constraint.min_version.value_or(0));
    ASSERT_EQ(decision.version, constraint.exact_version.value_or(decision.version));
    ASSERT_LE(gate_.board().Lag(decision.version),
              constraint.max_lag_versions.value_or(UINT64_MAX));
  }

  void Arrive() {
    const Request request = DrawRequest();
    const Decision expected = oracle_.Arrive(request, now_);
    const Decision decision = gate_.Arrive(request, now_);
    ASSERT_EQ(decision, expected) << Show(decision) << Show(expected);
    CheckDecision(decision);
  }

  void Leave() {
    if (oracle_.lives.empty()) return;
    const GateOracle::Live live = oracle_.lives[Draw(static_cast<unsigned>(oracle_.lives.size()))];
    if (!live.waiting) {
      ASSERT_EQ(gate_.Finish(live.id, now_), oracle_.Finish(live.id, now_));
    } else if (Draw(4) == 0) {
      ASSERT_TRUE(gate_.Withdraw(live.id));
      ASSERT_TRUE(oracle_.Withdraw(live.id));
    }
  }

  void Switch(unsigned event) {
    const VersionNumber version = Version();
    const VersionNumber target =
        oracle_.target != kNoVersion && Draw(8) != 0 ? oracle_.target : version;
    const auto policy = static_cast<DrainPolicy>(Draw(3));
    if (event < 3) {
      Allowed(oracle_.MayPrepare(version), [&](auto& it) { return it.Prepare(version, now_); });
    } else if (event < 8) {
      Allowed(oracle_.MayClose(version, now_),
              [&](auto& it) { return it.Close(policy, version, now_); });
    } else if (event < 14) {
      Allowed(oracle_.MayBeginCommit(), [&](auto& it) { return it.BeginCommit(now_), true; });
    } else if (event < 17) {
      Allowed(oracle_.MayResume(), [&](auto& it) { return it.Resume(now_), true; });
    } else if (event < 25) {
      Allowed(oracle_.MayOpen(target), [&](auto& it) { return it.Open(target, now_); });
    } else if (event < 27) {
      Allowed(oracle_.state == GateState::kClosing, [&](auto& it) { return it.Reopen(now_); });
    } else {
      Fail();
    }
  }

  void Fail() {
    if (Draw(6) != 0) return;
    const bool allowed = oracle_.state != GateState::kStopped;
    const unsigned how = Draw(5);
    if (how == 0) {
      ASSERT_EQ(gate_.Stop(now_), oracle_.End(GateState::kStopped, Reason::kStopped, now_));
    } else if (!allowed) {
      ExpectThrow([this](auto& it) { it.Boot(now_); });
      ExpectThrow([this](auto& it) { it.Poison(now_); });
    } else if (how < 3) {
      ASSERT_EQ(gate_.Boot(now_), oracle_.End(GateState::kBooting, Reason::kBooting, now_));
    } else {
      ASSERT_EQ(gate_.Poison(now_), oracle_.End(GateState::kPoisoned, Reason::kPoisoned, now_));
    }
  }

  template <typename Call>
  void ExpectThrow(const Call& call) {
    testing::ExpectError(ErrorCode::kInternal, [&] { call(gate_); });
  }

  template <typename Call>
  void Allowed(bool allowed, const Call& call) {
    if (allowed) {
      Same([&call](auto& it, MonotonicTime) { return call(it); });
    } else {
      ExpectThrow(call);
    }
  }

  // Both say the same.
  template <typename Call>
  void Same(const Call& call) {
    const auto expected = call(oracle_, now_);
    const auto decided = call(gate_, now_);
    ASSERT_EQ(decided, expected) << Show(decided) << Show(expected);
    if constexpr (std::is_same_v<decltype(decided), const Gate::Decisions>) {
      for (const Decision& decision : decided) CheckDecision(decision);
    }
  }

  void Compare() {
    ASSERT_EQ(gate_.state(), oracle_.state);
    ASSERT_EQ(gate_.served(), oracle_.served);
    ASSERT_EQ(gate_.target(), oracle_.target);
    ASSERT_EQ(gate_.waiting(), oracle_.waiting());
    ASSERT_EQ(gate_.in_flight(), oracle_.in_flight());
    ASSERT_EQ(gate_.leaving(), oracle_.leaving());
    ASSERT_EQ(gate_.next_deadline(), oracle_.NextDeadline());
    ASSERT_EQ(gate_.WantedExactly(), oracle_.WantedExactly());
    for (const GateOracle::Live& live : oracle_.lives) {
      if (live.waiting) continue;
      ASSERT_EQ(gate_.StampOf(live.id), live.stamp);
    }
  }

  static std::string Show(const Decision& decision) {
    return fmt::format("request {}: outcome {}, {}, at {}\n", decision.request,
                       static_cast<int>(decision.outcome), ReasonText(decision.reason),
                       decision.version);
  }
  static std::string Show(const Gate::Decisions& decisions) {
    std::string text = fmt::format("{} decisions\n", decisions.size());
    for (const Decision& decision : decisions) text += Show(decision);
    return text;
  }
  static std::string Show(MonotonicTime) { return ""; }
  static std::string Show(bool) { return ""; }

  std::mt19937 random_;
  GateOptions options_;
  Gate gate_;
  GateOracle oracle_;
  std::set<Reason>* seen_;
  MonotonicTime now_ = MonotonicTime(std::chrono::hours(1));
};

TEST(GateModelTest, TheGateDecidesAsTheListsDo) {
  const unsigned first = testing::TestSeed();
  std::set<Reason> seen;
  for (unsigned seed = first; seed != first + kSequences; ++seed) {
    Model model(seed, &seen);
    for (int event = 0; event < kEvents; ++event) {
      model.Step();
      if (::testing::Test::HasFailure()) {
        FAIL() << "event " << event << "; ISTHMUS_TEST_SEED=" << seed << " begins with this";
      }
    }
  }
  // Every reason was met, from the first to the last of the enumeration.
  EXPECT_EQ(seen.size(), static_cast<size_t>(Reason::kDraining) + 1);
}

}  // namespace
}  // namespace isthmus::sidecar
