// What every engine that has a pause must do when it is driven through the port.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/engine_targets.h"

namespace isthmus::engine {
namespace {

using isthmus::testing::EngineDouble;
using isthmus::testing::EngineDriver;
using isthmus::testing::EngineProcess;
using isthmus::testing::EngineTarget;
using isthmus::testing::ExpectError;
using isthmus::testing::Pending;
using isthmus::testing::ProofsOf;
using isthmus::testing::SglangTarget;
using isthmus::testing::TokenProof;
using isthmus::testing::VllmTarget;

class ConformanceTest : public ::testing::TestWithParam<EngineTarget> {
 protected:
  EngineDriver& Start(std::vector<std::string> arguments = {}, EngineLimits limits = {}) {
    return driver_.emplace(GetParam(), limits, std::move(arguments));
  }
  void TearDown() override {
    if (!driver_) return;
    EXPECT_EQ(driver_->process().Violations(), "[]");
  }
  // Starts a generation that has made so many of its tokens, one by one.
  Pending<EngineProcess::Reply> GenerateSome(int made, int all) {
    EngineDouble& engine = driver_->process();
    engine.Manual();
    auto reply = driver_->Generate(all);
    EngineProcess::Await([&] { return engine.State().at("waiting") == 1; }, "a waiting request");
    engine.Step(made);
    return reply;
  }
  void ExpectServed(std::string_view version) {
    for (const TokenProof& token : ProofsOf(driver_->Generate(2).get())) {
      EXPECT_EQ(token.digest, driver_->digest(version));
      EXPECT_EQ(token.kv, std::vector<std::string>{driver_->digest(version)});
    }
  }

  std::optional<EngineDriver> driver_;
};

TEST_P(ConformanceTest, SwitchesThereAndBack) {
  EngineDriver& driver = Start();
  const Abilities abilities = driver.Probe();
  EXPECT_TRUE(abilities.pauses);
  EXPECT_TRUE(abilities.keeps);
  EXPECT_TRUE(abilities.labels);
  EXPECT_TRUE(abilities.generates);
  EXPECT_EQ(abilities.salt_field, "cache_salt");
  ExpectServed("v1");
  for (PauseMode mode : {PauseMode::kKeep, PauseMode::kWait, PauseMode::kAbort}) {
    for (std::string_view version : {"v2", "v1"}) {
      driver.Switch(version, mode);
      ExpectServed(version);
      EXPECT_EQ(driver.Inspect().label, version);
    }
  }
}

TEST_P(ConformanceTest, EverythingThatIsMissingIsNamed) {
  std::vector<std::string> all;
  for (const std::string& route : GetParam().needed) {
    EngineDriver& driver = Start({"--without", route});
    ExpectError(
        ErrorCode::kInvalid, [&] { driver.Probe(); }, route, driver.engine().name());
    all.insert(all.end(), {"--without", route});
  }
  EngineDriver& driver = Start(all);
  try {
    driver.Probe();
    ADD_FAILURE() << "nothing is missing";
  } catch (const Error& error) {
    for (const std::string& route : GetParam().needed) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(" " + route));
    }
  }
}

TEST_P(ConformanceTest, WithoutApiDocumentsNothingIsGuessed) {
  EngineDriver& driver = Start({"--without", "/openapi.json"});
  ExpectError(
      ErrorCode::kInvalid, [&] { driver.Probe(); }, "GET /openapi.json", "404");
}

TEST_P(ConformanceTest, WhatIsOptionalMayBeMissing) {
  for (const std::string& route : GetParam().optional) {
    EngineDriver& driver = Start({"--without", route});
    const Abilities abilities = driver.Probe();
    EXPECT_EQ(abilities.generates, route != GetParam().generate);
    driver.Switch("v2");
    EXPECT_EQ(driver.process().State().at("pause_mode"), nullptr);
    EXPECT_EQ(driver.process().State().at("digests").at(0).as_string(), driver.digest("v2"));
    EXPECT_EQ(driver.process().Violations(), "[]");
  }
}

TEST_P(ConformanceTest, NothingGoesBeforeTheProbe) {
  EngineDriver& driver = Start();
  for (std::string_view call :
       {"Inspect", "Settle", "Pause", "Load", "Flush", "Verify", "Canary"}) {
    ExpectError(
        ErrorCode::kInternal, [&] { driver.Call(call); }, "before Probe");
  }
}

TEST_P(ConformanceTest, KeptRequestsGoOnWithNewWeightsAndNothingOfTheOld) {
  EngineDriver& driver = Start();
  driver.Probe();
  auto reply = GenerateSome(2, 5);
  driver.Pause(PauseMode::kKeep);
  driver.Load("v2");
  driver.Flush();
  driver.Verify("v2");
  driver.Resume();
  driver.process().Step(3);
  const std::vector<TokenProof> tokens = ProofsOf(reply.get());
  ASSERT_EQ(tokens.size(), 5U);
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i].digest, driver.digest(i < 2 ? "v1" : "v2"));
    EXPECT_EQ(tokens[i].kv, std::vector<std::string>{tokens[i].digest});
  }
}

TEST_P(ConformanceTest, AWaitingPauseLetsRequestsEnd) {
  EngineDriver& driver = Start();
  driver.Probe();
  auto reply = GenerateSome(1, 3);
  auto pause = driver.StartPause(PauseMode::kWait);
  EngineDouble& engine = driver.process();
  // One waits by the engine, the other looks at its load again and again.
  EngineProcess::Await(
      [&] {
        return engine.State().at("pause_mode") == "wait" ||
               std::ranges::count(engine.Calls(), "GET /v1/loads") > 1;
      },
      "a pause that waits");
  EXPECT_EQ(engine.State().at("running"), 1);
  engine.Step(2);
  pause.get();
  const std::vector<TokenProof> tokens = ProofsOf(reply.get());
  EXPECT_EQ(tokens.size(), 3U);
  EXPECT_EQ(tokens.back().digest, driver.digest("v1"));
  driver.Load("v2");
  driver.Flush();
  driver.Resume();
}

TEST_P(ConformanceTest, AnAbortEndsRequestsWithWhatTheyHave) {
  EngineDriver& driver = Start();
  driver.Probe();
  auto reply = GenerateSome(1, 3);
  driver.Pause(PauseMode::kAbort);
  EXPECT_EQ(ProofsOf(reply.get()).size(), 1U);
  driver.Resume();
}

TEST_P(ConformanceTest, APauseIsConfirmedAnewAndEndedOnce) {
  EngineDriver& driver = Start();
  driver.Probe();
  EXPECT_EQ(driver.Inspect().paused, false);
  driver.Pause();
  // Another sidecar in its place.
  driver.Connect({});
  driver.Probe();
  driver.Settle();
  EXPECT_NE(driver.Inspect().paused, false);
  driver.Pause();
  driver.Pause(PauseMode::kWait);
  driver.Resume();
  driver.Resume();
  EXPECT_EQ(driver.Inspect().paused, false);
}

TEST_P(ConformanceTest, ALoadThatTimesOutIsWaitedForBySettle) {
  EngineLimits limits;
  limits.load = net::Milliseconds(200);
  EngineDriver& driver = Start({}, limits);
  EngineDouble& engine = driver.process();
  driver.Probe();
  driver.Pause();
  const std::string& route = GetParam().routes.at("Load").front();
  engine.PlanFault(route, "hang", "midway");
  ExpectError(
      ErrorCode::kUnavailable, [&] { driver.Load("v2"); }, route, "not done within");
  driver.Connect({});
  driver.Probe();
  auto settle = driver.Start(&Engine::Settle);
  const auto settles = [&](bool ended) {
    const boost::json::value log = engine.Get("/_double/log");
    const auto& last = log.as_array().back();
    return last.at("path").as_string() ==
               std::string_view(GetParam().routes.at("Settle").front()) &&
           last.at("ended").is_null() != ended;
  };
  EngineProcess::Await([&] { return settles(false); }, "a call that settles");
  EXPECT_EQ(engine.State().at("updating"), true);
  engine.Release();
  settle.get();
  EXPECT_TRUE(settles(true));
  EXPECT_EQ(engine.State().at("updating"), false);
  driver.Switch("v2");
  ExpectServed("v2");
}

TEST_P(ConformanceTest, ALoadThatDoesNothingIsSeenByTheCanaryOnly) {
  EngineDriver& driver = Start();
  driver.Probe();
  const auto before = driver.Canary();
  ASSERT_TRUE(before);
  driver.process().PlanFault(GetParam().routes.at("Load").front(), "stale", "");
  driver.Switch("v2");
  EXPECT_EQ(driver.Canary(), before);
  driver.Switch("v2");
  EXPECT_NE(driver.Canary(), before);
}

TEST_P(ConformanceTest, AnotherLabelIsFound) {
  EngineDriver& driver = Start();
  driver.Probe();
  driver.Switch("v2");
  ExpectError(
      ErrorCode::kCorrupt, [&] { driver.Verify("v1"); }, "\"v2\"", "\"v1\"");
}

TEST_P(ConformanceTest, ACheckpointThatIsNotThereIsAnErrorOfTheEngine) {
  EngineDriver& driver = Start();
  driver.Probe();
  driver.Pause();
  ExpectError(
      ErrorCode::kUnavailable, [&] { driver.Load("v3"); }, GetParam().routes.at("Load").front(),
      "status");
}

TEST_P(ConformanceTest, AnotherEngineIsRefused) {
  EngineTarget other = GetParam();
  other.kind = other.kind == "vllm" ? "sglang" : "vllm";
  EngineDriver& driver = driver_.emplace(other);
  ExpectError(
      ErrorCode::kInvalid, [&] { driver.Probe(); }, "does not list POST /");
}

INSTANTIATE_TEST_SUITE_P(Engines, ConformanceTest, ::testing::Values(VllmTarget(), SglangTarget()),
                         [](const auto& one) { return one.param.kind; });

}  // namespace
}  // namespace isthmus::engine
