#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "tests/support/errors.h"
#include "tests/support/scripted_engine.h"

namespace isthmus::engine {
namespace {

using isthmus::testing::CallByName;
using isthmus::testing::ExpectError;
using isthmus::testing::SaneVllm;
using isthmus::testing::ScriptedEngine;

void Call(ScriptedEngine& engine, const std::string& name) {
  engine.Run([&](Engine& port) { return CallByName(port, name); });
}

// An OpenAPI document of the sane answers' routes, in which /pause and /get_world_size take these
// query parameters.
std::string DocumentWith(std::string_view pause, std::string_view world_size) {
  std::string paths;
  for (const char* route : {"/resume", "/collective_rpc", "/reset_prefix_cache"}) {
    paths += fmt::format("\"{}\":{{\"post\":{{}}}},", route);
  }
  return fmt::format(
      R"({{"paths":{{{}"/is_paused":{{"get":{{}}}},"/pause":{{"post":{{"parameters":[{}]}}}},
         "/get_world_size":{{"get":{{"parameters":[{}]}}}}}}}})",
      paths, pause, world_size);
}

TEST(VllmTest, ASwitchAsItIsSent) {
  ScriptedEngine::Answers answers = SaneVllm();
  answers["POST /reset_mm_cache"] = answers["POST /reset_encoder_cache"] = {""};
  ScriptedEngine engine("vllm", answers, {}, "secret");
  for (const char* call : {"Probe", "Settle", "Pause", "Load", "Flush", "Verify", "Resume"}) {
    Call(engine, call);
  }
  std::string sent;
  for (const ScriptedEngine::Request& request : engine.Requests()) {
    EXPECT_EQ(request.authorization, "Bearer secret");
    EXPECT_EQ(request.content_type, request.body.empty() ? "" : "application/json");
    sent += fmt::format("{} {} {}\n", request.method, request.target, request.body);
  }
  EXPECT_EQ(sent,
            "GET /openapi.json \n"
            "POST /collective_rpc {\"method\":\"check_health\"}\n"
            "POST /pause?mode=keep&clear_cache=true \n"
            "POST /collective_rpc "
            "{\"method\":\"reload_weights\",\"kwargs\":{\"weights_path\":\"/v2\"}}\n"
            "POST /update_weight_version {\"new_version\":\"v2\"}\n"
            "POST /reset_prefix_cache?reset_running_requests=true&reset_external=true \n"
            "POST /reset_mm_cache \n"
            "POST /reset_encoder_cache \n"
            "GET /weight_info \n"
            "GET /is_paused \n"
            "POST /resume \n");
}

TEST(VllmTest, ACanaryHasASaltThatNoRequestHad) {
  ScriptedEngine engine("vllm", SaneVllm());
  Call(engine, "Probe");
  std::vector<std::string> salts;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(engine.Run([](Engine& port) { return port.Canary(); }), -1.5);
    const boost::json::value body = boost::json::parse(engine.Requests().back().body);
    EXPECT_EQ(body.at("model").as_string(), "m");
    EXPECT_EQ(body.at("max_tokens"), 1);
    salts.emplace_back(body.at("cache_salt").as_string().c_str());
  }
  EXPECT_NE(salts[0], salts[1]);
}

TEST(VllmTest, AnEngineThatSleepsIsNotPaused) {
  ScriptedEngine::Answers answers = SaneVllm();
  answers["GET /is_paused"] = {R"({"is_paused":false})"};
  answers["GET /is_sleeping"] = {R"({"is_sleeping":true})"};
  ScriptedEngine engine("vllm", answers);
  Call(engine, "Probe");
  ExpectError(
      ErrorCode::kUnavailable, [&] { Call(engine, "Pause"); }, "/is_sleeping", "woken up");
  EXPECT_EQ(engine.Requests().back().target, "/is_sleeping");
}

TEST(VllmTest, AnAnswerForFewerRanksThanThereAreIsNoSuccess) {
  ScriptedEngine::Answers answers = SaneVllm();
  answers["GET /openapi.json"] = {DocumentWith("", R"({"name":"include_dp"})")};
  answers["GET /get_world_size"] = {R"({"world_size":4})"};
  answers["POST /collective_rpc"] = {R"({"results":[null,null]})"};
  ScriptedEngine engine("vllm", answers);
  ExpectError(
      ErrorCode::kInvalid, [&] { Call(engine, "Probe"); }, "mode");
  engine.Set("GET /openapi.json", {DocumentWith(R"({"name":"mode"})", R"({"name":"include_dp"})")});
  Call(engine, "Probe");
  EXPECT_EQ(engine.Requests().back().target, "/get_world_size?include_dp=false");
  ExpectError(
      ErrorCode::kCorrupt, [&] { Call(engine, "Load"); }, "/results", "4 ranks");
}

// The number of all replicas' workers would be too many.
TEST(VllmTest, AWorldSizeThatCountsReplicasIsNotAskedFor) {
  ScriptedEngine::Answers answers = SaneVllm();
  answers["GET /openapi.json"] = {DocumentWith(R"({"name":"mode"})", "")};
  ScriptedEngine engine("vllm", answers);
  Call(engine, "Probe");
  EXPECT_EQ(engine.Requests().back().target, "/openapi.json");
  Call(engine, "Load");
}

TEST(VllmTest, PauseModesAreThoseOfTheDocument) {
  ScriptedEngine::Answers answers = SaneVllm();
  answers["GET /openapi.json"] = {
      DocumentWith(R"({"name":"mode","schema":{"enum":["abort","wait"]}})", "")};
  ScriptedEngine engine("vllm", answers);
  const Abilities abilities = engine.Run([](Engine& port) { return port.Probe(); });
  EXPECT_FALSE(abilities.keeps);
  EXPECT_FALSE(abilities.labels);
  EXPECT_FALSE(abilities.generates);
  ExpectError(
      ErrorCode::kInvalid, [&] { Call(engine, "Pause"); }, "mode=keep");
  Call(engine, "Wait");
}

TEST(VllmTest, OlderReleasesSayNothingOfAFlush) {
  ScriptedEngine::Answers answers = SaneVllm();
  answers["POST /reset_prefix_cache"] = {""};
  ScriptedEngine engine("vllm", answers);
  Call(engine, "Probe");
  Call(engine, "Flush");
}

TEST(VllmTest, ATokenThatIsRefusedIsInvalid) {
  for (int status : {401, 403}) {
    ScriptedEngine engine("vllm", {{"GET /openapi.json", {"Unauthorized", status}}});
    ExpectError(
        ErrorCode::kInvalid, [&] { Call(engine, "Probe"); }, fmt::format("{}", status));
  }
}

}  // namespace
}  // namespace isthmus::engine
