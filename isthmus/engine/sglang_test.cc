#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>

#include "tests/support/engine_targets.h"
#include "tests/support/errors.h"
#include "tests/support/scripted_engine.h"

namespace isthmus::engine {
namespace {

using isthmus::testing::CallByName;
using isthmus::testing::EngineDriver;
using isthmus::testing::ExpectError;
using isthmus::testing::SaneSglang;
using isthmus::testing::ScriptedEngine;
using isthmus::testing::SglangTarget;

void Call(ScriptedEngine& engine, const std::string& name) {
  engine.Run([&](Engine& port) { return CallByName(port, name); });
}

TEST(SglangTest, ASwitchAsItIsSent) {
  ScriptedEngine engine("sglang", SaneSglang(), {}, "secret");
  for (const char* call :
       {"Probe", "Settle", "Pause", "Wait", "Load", "Flush", "Verify", "Resume"}) {
    Call(engine, call);
  }
  std::string sent;
  for (const ScriptedEngine::Request& request : engine.Requests()) {
    EXPECT_EQ(request.authorization, "Bearer secret");
    sent += fmt::format("{} {} {}\n", request.method, request.target, request.body);
  }
  EXPECT_EQ(sent,
            "GET /openapi.json \n"
            "GET /model_info \n"
            "GET /server_info \n"
            "POST /pause_generation {\"mode\":\"retract\"}\n"
            "POST /flush_cache?timeout=0 \n"
            "GET /v1/loads \n"
            "POST /pause_generation {\"mode\":\"retract\"}\n"
            "POST /flush_cache?timeout=0 \n"
            "POST /update_weights_from_disk {\"model_path\":\"/v2\",\"flush_cache\":false,"
            "\"weight_version\":\"v2\",\"load_format\":\"auto\"}\n"
            "POST /flush_cache?timeout=0 \n"
            "GET /model_info \n"
            "POST /continue_generation {}\n");
}

TEST(SglangTest, ControlRoutesMayNeedAKey) {
  EngineDriver driver(SglangTarget(), {}, {"--admin-api-key", "secret"});
  driver.Probe();
  ExpectError(
      ErrorCode::kInvalid, [&] { driver.Pause(); }, "/pause_generation", "401");
  driver.Connect({}, "secret");
  driver.Probe();
  driver.Switch("v2");
  EXPECT_EQ(driver.process().Violations(), "[]");
}

TEST(SglangTest, AReplicaThatIsBusyIsWaitedFor) {
  EngineLimits limits;
  limits.pause = net::Milliseconds(1000);
  ScriptedEngine::Answers answers = SaneSglang();
  answers["GET /v1/loads"] = {R"({"loads":[{"num_running_reqs":0,"num_waiting_reqs":0},
                                           {"num_running_reqs":0,"num_waiting_reqs":1}]})"};
  ScriptedEngine engine("sglang", answers, limits);
  Call(engine, "Probe");
  ExpectError(
      ErrorCode::kUnavailable, [&] { Call(engine, "Wait"); }, "GET /v1/loads", "not done within");
  const auto requests = engine.Requests();
  EXPECT_GT(std::ranges::count(requests, "/v1/loads", &ScriptedEngine::Request::target), 1);
  EXPECT_EQ(std::ranges::count(requests, "/pause_generation", &ScriptedEngine::Request::target), 0);
}

TEST(SglangTest, AnEngineThatCannotFlushIsFoundOutBeforeItsWeightsChange) {
  ScriptedEngine::Answers answers = SaneSglang();
  answers["POST /flush_cache"] = {"Flush cache failed: requests are pending.", 400};
  ScriptedEngine engine("sglang", answers);
  Call(engine, "Probe");
  ExpectError(
      ErrorCode::kUnavailable, [&] { Call(engine, "Pause"); }, "POST /flush_cache", "400",
      "pending");
}

std::string DocumentWithFields(std::string_view fields) {
  std::string paths;
  for (const auto& [route, answer] : SaneSglang()) {
    const size_t blank = route.find(' ');
    if (route == "POST /generate") continue;
    paths += fmt::format("\"{}\":{{\"{}\":{{}}}},", route.substr(blank + 1),
                         route[0] == 'P' ? "post" : "get");
  }
  return fmt::format(
      R"({{"paths":{{{}"/generate":{{"post":{{"requestBody":{{"content":{{"application/json":
         {{"schema":{{"$ref":"#/components/schemas/GenerateReqInput"}}}}}}}}}}}}}},
         "components":{{"schemas":{{"GenerateReqInput":{{"properties":{{{}}}}}}}}}}})",
      paths, fields);
}

TEST(SglangTest, TheSaltsFieldIsReadFromTheSchema) {
  for (const auto& [fields, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"("cache_salt":{},"extra_key":{})", "cache_salt"},
           {R"("extra_key":{})", "extra_key"},
           {R"("text":{})", ""}}) {
    ScriptedEngine::Answers answers = SaneSglang();
    answers["GET /openapi.json"] = {DocumentWithFields(fields)};
    ScriptedEngine engine("sglang", answers);
    EXPECT_EQ(engine.Run([](Engine& port) { return port.Probe(); }).salt_field, expected);
    EXPECT_EQ(engine.Run([](Engine& port) { return port.Canary(); }), -1.0);
    const boost::json::value body = boost::json::parse(engine.Requests().back().body);
    EXPECT_EQ(body.as_object().contains("cache_salt"), expected == "cache_salt");
    EXPECT_EQ(body.as_object().contains("extra_key"), expected == "extra_key");
  }
}

}  // namespace
}  // namespace isthmus::engine
