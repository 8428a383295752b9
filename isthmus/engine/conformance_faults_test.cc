// Every fault of a double on every route that a call of the port uses: an error of the right code
// within the call's deadline, never a silent success, and never a call that the engine forbids.
// (A slow drain is a hang midway, and half-applied weights are an error midway. A load that answers
// well and changes nothing is in conformance_test.cc.)

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <tuple>

#include "tests/support/engine_targets.h"

namespace isthmus::engine {
namespace {

using isthmus::testing::EngineDriver;
using isthmus::testing::EngineTarget;
using isthmus::testing::ExpectError;
using isthmus::testing::SglangTarget;
using isthmus::testing::VllmTarget;

struct PortCall {
  std::string name;
  net::Milliseconds EngineLimits::*limit;
};

void PrintTo(const PortCall& call, std::ostream* out) { *out << call.name; }

const std::vector<PortCall>& PortCalls() {
  static const std::vector<PortCall> calls = {
      {"Probe", &EngineLimits::probe},   {"Inspect", &EngineLimits::inspect},
      {"Settle", &EngineLimits::settle}, {"Wait", &EngineLimits::pause},
      {"Pause", &EngineLimits::pause},   {"Load", &EngineLimits::load},
      {"Flush", &EngineLimits::flush},   {"Verify", &EngineLimits::verify},
      {"Resume", &EngineLimits::resume}, {"Canary", &EngineLimits::canary}};
  return calls;
}

class FaultsTest : public ::testing::TestWithParam<std::tuple<EngineTarget, PortCall>> {
 protected:
  static const EngineTarget& target() { return std::get<0>(GetParam()); }
  static const PortCall& call() { return std::get<1>(GetParam()); }
  static const std::vector<std::string>& routes() { return target().routes.at(call().name); }

  // Makes the calls that come before this one, plans the fault, and makes this one.
  static void Meet(const std::string& route, const std::string& kind, const std::string& when) {
    SCOPED_TRACE(fmt::format("{} {} {} {}", call().name, route, kind, when));
    EngineLimits limits;
    // Short only where something hangs.
    if (kind == "hang") limits.*call().limit = net::Milliseconds(300);
    EngineDriver driver(target(), limits);
    for (const PortCall& before : PortCalls()) {
      if (before.name == call().name) break;
      if (before.name != "Wait") driver.Call(before.name);  // it is another Pause
    }
    driver.process().PlanFault(route, kind, when);
    const auto begun = std::chrono::steady_clock::now();
    ExpectError(
        ErrorCode::kUnavailable, [&] { driver.Call(call().name); }, driver.engine().name(), route);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
    if (kind == "die") return;
    EXPECT_EQ(driver.process().Violations(), "[]");
    EXPECT_EQ(driver.process().Get("/_double/faults"), boost::json::array());
  }
};

TEST_P(FaultsTest, BeforeTheCallDoesAnything) {
  for (const std::string& route : routes()) {
    for (const char* kind : {"hang", "error", "reset", "die"}) Meet(route, kind, "before");
  }
}

TEST_P(FaultsTest, AfterTheCallHasDoneItAll) {
  for (const std::string& route : routes()) {
    for (const char* kind : {"hang", "error", "reset", "die"}) Meet(route, kind, "after");
  }
}

// Only loads and pauses have a middle: half of the ranks, requests that do not drain.
TEST_P(FaultsTest, InTheMiddleOfIt) {
  for (const std::string& route : routes()) {
    const bool loads = call().name == "Load" && route == routes().front();
    if (!loads && route != "/pause" && route != "/pause_generation") continue;
    for (const char* kind : {"hang", "error", "reset", "die"}) Meet(route, kind, "midway");
  }
}

TEST_P(FaultsTest, AStatusOf200IsNotEnough) {
  for (const std::string& route : routes()) {
    const bool has_kind = route == "/collective_rpc" || route == "/reset_prefix_cache" ||
                          route == "/update_weight_version" || route == "/update_weights_from_disk";
    if (has_kind) Meet(route, "error_in_200", "");
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, FaultsTest,
                         ::testing::Combine(::testing::Values(VllmTarget(), SglangTarget()),
                                            ::testing::ValuesIn(PortCalls())),
                         [](const auto& one) {
                           return std::get<0>(one.param).kind + std::get<1>(one.param).name;
                         });

class RecoveryTest : public ::testing::TestWithParam<EngineTarget> {};

// A call whose answer was lost is not made again by guessing: the port's order of calls, begun
// anew, ends well from wherever the engine was left.
TEST_P(RecoveryTest, ASwitchBegunAnewEndsWellAfterEachLostAnswer) {
  for (const char* call : {"Pause", "Load", "Flush", "Verify", "Resume", "Canary"}) {
    for (const std::string& route : GetParam().routes.at(call)) {
      SCOPED_TRACE(fmt::format("{} {}", call, route));
      EngineDriver driver(GetParam());
      driver.Probe();
      driver.process().PlanFault(route, "reset", "after");
      ExpectError(ErrorCode::kUnavailable, [&] { driver.Switch("v2"); });
      driver.Connect({});
      driver.Probe();
      driver.Settle();
      driver.Switch("v2");
      EXPECT_EQ(driver.process().State().at("digests").at(0).as_string(), driver.digest("v2"));
      EXPECT_EQ(driver.process().Violations(), "[]");
    }
  }
}

TEST_P(RecoveryTest, AnAbortFreesAPauseThatDoesNotDrain) {
  EngineLimits limits;
  limits.pause = net::Milliseconds(300);
  EngineDriver driver(GetParam(), limits);
  driver.Probe();
  driver.process().Manual();
  auto reply = driver.Generate(3);
  isthmus::testing::EngineProcess::Await(
      [&] { return driver.process().State().at("waiting") == 1; }, "a waiting request");
  driver.process().Step(1);
  ExpectError(
      ErrorCode::kUnavailable, [&] { driver.Pause(PauseMode::kWait); }, "not done within");
  driver.Connect({});
  driver.Probe();
  driver.Pause(PauseMode::kAbort);
  EXPECT_EQ(isthmus::testing::ProofsOf(reply.get()).size(), 1U);
  driver.Resume();
  EXPECT_EQ(driver.process().Violations(), "[]");
}

INSTANTIATE_TEST_SUITE_P(Engines, RecoveryTest, ::testing::Values(VllmTarget(), SglangTarget()),
                         [](const auto& one) { return one.param.kind; });

}  // namespace
}  // namespace isthmus::engine
