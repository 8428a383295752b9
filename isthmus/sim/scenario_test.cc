#include "isthmus/sim/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "isthmus/base/error.h"

namespace isthmus::sim {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

json::object Smallest() {
  return json::parse(R"({
    "hours": 1,
    "model": {"checkpoint_bytes": 1e9, "density": 0.01},
    "trainer": {"mode": "cadence", "step_s": 60, "in_flight": 4},
    "rollouts": {"mean_tokens": 100},
    "engine": {"tokens_per_s": 100, "slots": 4, "pause_s": 0.1, "load_s": 1},
    "regions": [{"name": "a", "islands": 2}]})")
      .as_object();
}

std::string ErrorOf(const std::string& text) {
  try {
    ReadScenario(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalid);
    return error.what();
  }
  return "";
}

TEST(Scenario, WhatIsNotGivenHasItsDocumentedValue) {
  const Scenario scenario = ReadScenario(json::serialize(Smallest()));
  EXPECT_EQ(scenario.seed, 1);
  EXPECT_EQ(scenario.islands(), 2);
  EXPECT_EQ(scenario.policy.drain, sidecar::DrainPolicy::kInPlace);
  EXPECT_LT(scenario.policy.max_lag, 0);
  EXPECT_EQ(scenario.policy.poll_s, 2);
  EXPECT_EQ(scenario.regions[0].engine.slots, 4);
  EXPECT_EQ(scenario.regions[0].engine.request_tokens_per_s, 100);
  EXPECT_EQ(scenario.regions[0].link_bytes_per_s, kNoLimit);
  EXPECT_EQ(scenario.regions[0].spot.kills_per_island_hour, 0);
}

TEST(Scenario, HoursCanBeReplaced) {
  EXPECT_EQ(ReadScenario(json::serialize(Smallest()), 0.5).hours, 0.5);
  EXPECT_THROW(ReadScenario(json::serialize(Smallest()), -1), Error);
  EXPECT_THROW(ReadScenario(json::serialize(Smallest()), NAN), Error);
}

TEST(Scenario, ARegionMayHaveItsOwnEngineAndSpot) {
  json::object document = Smallest();
  document["spot"] = {{"kills_per_island_hour", 1}, {"boot_s", 10}};
  json::object own = {
      {"name", "b"},
      {"islands", 1},
      {"link_gbit_s", 8},
      {"latency_ms", 20},
      {"engine", {{"tokens_per_s", 7}, {"slots", 1}, {"pause_s", 0}, {"load_s", 0}}}};
  document["regions"].as_array().push_back(own);
  const Scenario scenario = ReadScenario(json::serialize(document));
  EXPECT_EQ(scenario.regions[0].engine.tokens_per_s, 100);
  EXPECT_EQ(scenario.regions[1].engine.tokens_per_s, 7);
  EXPECT_EQ(scenario.regions[1].spot.boot_s, 10);
  EXPECT_DOUBLE_EQ(scenario.regions[1].link_bytes_per_s, 1e9);
  EXPECT_DOUBLE_EQ(scenario.regions[1].latency_s, 0.02);
}

struct Bad {
  const char* pointer;
  const char* value;  // "": the field is removed
  const char* says;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.pointer << " = " << bad.value; }

class BadScenario : public testing::TestWithParam<Bad> {};

TEST_P(BadScenario, IsRefusedAndNamed) {
  json::value document = Smallest();
  const std::string pointer = GetParam().pointer;
  const size_t slash = pointer.rfind('/');
  json::object& parent = document.at_pointer(pointer.substr(0, slash)).as_object();
  if (*GetParam().value == '\0') {
    parent.erase(pointer.substr(slash + 1));
  } else {
    parent[pointer.substr(slash + 1)] = json::parse(GetParam().value);
  }
  EXPECT_THAT(ErrorOf(json::serialize(document)), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadScenario,
    testing::Values(
        Bad{"/hours", "", "hours: missing"}, Bad{"/hours", "-1", "hours: found -1"},
        Bad{"/hours", "1e9", "allowed are numbers from 0 to 8784"},
        Bad{"/hours", "\"1\"", "hours: found \"1\""}, Bad{"/seed", "1.5", "seed: found 1.5E0"},
        Bad{"/sed", "1", "sed: unknown, allowed here are comment, hours, seed"},
        Bad{"/comment", "3", "comment"}, Bad{"/model", "3", "model: found 3, expected an object"},
        Bad{"/model/checkpoint_bytes", "0", "model.checkpoint_bytes"},
        Bad{"/model/checkpoint_bytes", "1e300", "model.checkpoint_bytes"},
        Bad{"/model/patch_bytes", "5", "model.patch_bytes: given beside density"},
        Bad{"/model/density", "1.01", "model.density"},
        Bad{"/trainer/mode", "\"async\"",
            "trainer.mode: found \"async\", allowed are cadence, synchronous, one_step_off, "
            "asynchronous"},
        Bad{"/trainer/mode", "\"synchronous\"", "trainer.batch: missing"},
        Bad{"/trainer/batch", "3", "trainer.batch: unknown"},
        Bad{"/trainer/step_s", "0.0001", "trainer.step_s: found 0.0001: more than 100000 versions"},
        Bad{"/trainer/in_flight", "1000001", "trainer.in_flight"},
        Bad{"/rollouts/sigma", "4", "rollouts.sigma"},
        Bad{"/rollouts/turns", "0", "rollouts.turns"},
        Bad{"/policy", R"({"drain": "never"})", "allowed are in_place, drain, abort"},
        Bad{"/policy", R"({"wait_s": 3601})", "policy.wait_s"},
        Bad{"/policy", R"({"max_lag": -1})", "policy.max_lag"},
        Bad{"/engine/slots", "0", "engine.slots"}, Bad{"/engine", "", "regions[0].engine: missing"},
        Bad{"/engine/tokens_per_s", "null", "engine.tokens_per_s: found null"},
        Bad{"/spot", R"({"kills_per_island_hour": 1, "boot_s": 0})", "spot.boot_s"},
        Bad{"/regions", "{}", "regions: expected an array"},
        Bad{"/regions/0/islands", "20001", "regions[0].islands"},
        Bad{"/regions/0/islands", "-3", "regions[0].islands"},
        Bad{"/regions/0/latency", "3", "regions[0].latency: unknown"}));

TEST(Scenario, WhatIsNoScenarioIsRefused) {
  EXPECT_THAT(ErrorOf("hours = 3"), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf(std::string(2'000, '[')), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf(std::string(kMaxScenarioBytes + 1, ' ')), HasSubstr("allowed are 1048576"));
}

TEST(Scenario, RegionsAndTheirSumAreBounded) {
  json::object document = Smallest();
  json::array& regions = document["regions"].as_array();
  for (int i = 0; i < 2; ++i) regions.push_back({{"name", "b"}, {"islands", kMaxIslands / 2}});
  EXPECT_THAT(ErrorOf(json::serialize(document)), HasSubstr("regions: 20002 islands"));
  regions.resize(kMaxRegions + 1);
  EXPECT_THAT(ErrorOf(json::serialize(document)), HasSubstr("array of up to 256"));
}

TEST(PatchBytes, FollowTheTableOfBitsPerChange) {
  ModelFacts model;
  model.checkpoint_bytes = 2e9;  // 1e9 weights
  model.density = 0.01;
  EXPECT_NEAR(PatchBytes(model, 1), 1e9 * 0.01 * 7.01 / 8, 1);
  model.density = 0.001;
  EXPECT_NEAR(PatchBytes(model, 1), 1e9 * 0.001 * 9.04 / 8, 1);
  model.density = 0.0005;  // one bit more
  EXPECT_NEAR(PatchBytes(model, 1), 1e9 * 0.0005 * 10.04 / 8, 1);
  model.density = 0.5;
  EXPECT_NEAR(PatchBytes(model, 1), 1e9 * 0.5 * 5.89 / 8, 1);
}

TEST(PatchBytes, OfSeveralStepsAreFewerThanOfEachAndMoreThanOfOne) {
  ModelFacts model;
  model.checkpoint_bytes = 2e9;
  model.density = 0.01;
  EXPECT_LT(PatchBytes(model, 8), 8 * PatchBytes(model, 1));
  EXPECT_GT(PatchBytes(model, 8), PatchBytes(model, 1));
  EXPECT_LE(PatchBytes(model, 1'000'000), model.checkpoint_bytes);
  model.density = 0;
  model.patch_bytes = 100;
  EXPECT_EQ(PatchBytes(model, 3), 300);
  EXPECT_EQ(PatchBytes(model, 1'000'000'000), model.checkpoint_bytes);
}

}  // namespace
}  // namespace isthmus::sim
