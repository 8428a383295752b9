// Answers that no engine gives: each is an error that names engine and route, and none is believed.

#include <gtest/gtest.h>

#include "isthmus/engine/engine.h"
#include "tests/support/errors.h"
#include "tests/support/scripted_engine.h"

namespace isthmus::engine {
namespace {

using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;
using isthmus::testing::RawListener;
using isthmus::testing::RawSocket;
using isthmus::testing::SaneSglang;
using isthmus::testing::SaneVllm;
using isthmus::testing::ScriptedEngine;

struct Case {
  std::string call;
  std::string route;
  std::string body;
  ErrorCode code = ErrorCode::kCorrupt;
};

void ExpectRefused(std::string_view kind, const ScriptedEngine::Answers& sane,
                   const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    SCOPED_TRACE(one.call + " " + one.route + " " + one.body.substr(0, 80));
    ScriptedEngine engine(std::string(kind), sane);
    const auto call = [&](const std::string& name) {
      engine.Run([&](Engine& port) { return isthmus::testing::CallByName(port, name); });
    };
    if (one.call != "Probe") call("Probe");
    if (one.call != "Probe") call(one.call);
    engine.Set(one.route, {one.body});
    ExpectError(
        one.code, [&] { call(one.call); }, std::string(kind) + ":http://127.0.0.1:", one.route);
  }
}

// What any answer may be instead of JSON.
std::vector<Case> NotJson(const std::string& call, const std::string& route) {
  std::vector<Case> cases;
  for (const std::string& body :
       {std::string(), std::string("hello"), std::string("<html>"), std::string("{"),
        std::string("[]"), std::string("null"), std::string("\xff\xfe{}"), std::string(10'000, '['),
        std::string((16 << 20) + 1, ' ')}) {
    cases.push_back({call, route, body});
  }
  return cases;
}

TEST(HostileTest, VllmAnswersOfTheWrongShape) {
  ExpectRefused(
      "vllm", SaneVllm(),
      {{"Probe", "GET /openapi.json", R"({"paths":[]})"},
       {"Inspect", "GET /is_paused", R"({"is_paused":"true"})"},
       {"Inspect", "GET /is_paused", R"({"is_paused":null})"},
       {"Inspect", "GET /weight_info", R"({"weight_version":7})"},
       {"Settle", "POST /collective_rpc", R"({"results":{}})"},
       {"Pause", "POST /pause", R"({"status":"pausing"})"},
       {"Load", "POST /collective_rpc", R"({"results":[]})"},
       {"Load", "POST /collective_rpc", R"({"results":null})"},
       {"Load", "POST /collective_rpc", R"({"results":[null,"no"]})", ErrorCode::kUnavailable},
       {"Load", "POST /collective_rpc", R"({"results":[false]})", ErrorCode::kUnavailable},
       {"Load", "POST /update_weight_version", R"({"success":false})", ErrorCode::kUnavailable},
       {"Load", "POST /update_weight_version", R"({"success":1})"},
       {"Flush", "POST /reset_prefix_cache", R"({"success":false})", ErrorCode::kUnavailable},
       {"Flush", "POST /reset_prefix_cache", R"({})"},
       {"Verify", "GET /weight_info", R"({"weight_version":"v1"})"},
       {"Resume", "POST /resume", R"({"status":"paused"})"},
       {"Canary", "GET /v1/models", R"({"data":[]})"},
       {"Canary", "GET /v1/models", R"({"data":[{"id":1}]})"}});
}

TEST(HostileTest, SglangAnswersOfTheWrongShape) {
  const std::string loads = "GET /v1/loads";
  ExpectRefused(
      "sglang", SaneSglang(),
      {{"Probe", "GET /model_info", R"({"weight_version":null})"},
       {"Probe", "GET /model_info", R"({"weight_version":"v","load_format":1})"},
       {"Settle", "GET /server_info", R"({})"},
       {"Pause", "POST /pause_generation", R"({"status":"no"})", ErrorCode::kUnavailable},
       {"Wait", loads, R"({"loads":[]})"},
       {"Wait", loads, R"({"loads":[{"num_running_reqs":0}]})"},
       {"Wait", loads, R"({"loads":[{"num_running_reqs":0,"num_waiting_reqs":-1}]})"},
       {"Wait", loads, R"({"loads":[{"num_running_reqs":0,"num_waiting_reqs":0.0}]})"},
       {"Load", "POST /update_weights_from_disk", R"({"success":false,"message":"no"})",
        ErrorCode::kUnavailable},
       {"Load", "POST /update_weights_from_disk", R"({"message":"yes"})"},
       {"Verify", "GET /model_info", R"({"weight_version":"v22"})"},
       {"Resume", "POST /continue_generation", R"({"status":"no"})", ErrorCode::kUnavailable}});
}

TEST(HostileTest, AnswersThatAreNotJsonOrTooLarge) {
  for (const auto& [call, route] : std::vector<std::pair<std::string, std::string>>{
           {"Probe", "GET /openapi.json"}, {"Load", "POST /collective_rpc"}}) {
    ExpectRefused("vllm", SaneVllm(), NotJson(call, route));
  }
  ExpectRefused("sglang", SaneSglang(), NotJson("Load", "POST /update_weights_from_disk"));
}

TEST(HostileTest, LogProbabilitiesThatAreNoNumbers) {
  for (const char* value : {"null", "NaN", "Infinity", "-1e999", "\"-1\"", "[-1]", "{}"}) {
    const std::string vllm =
        fmt::format(R"({{"choices":[{{"logprobs":{{"token_logprobs":[{}]}}}}]}})", value);
    const std::string sglang =
        fmt::format(R"({{"meta_info":{{"output_token_logprobs":[[{},5]]}}}})", value);
    ExpectRefused("vllm", SaneVllm(), {{"Canary", "POST /v1/completions", vllm}});
    ExpectRefused("sglang", SaneSglang(), {{"Canary", "POST /generate", sglang}});
  }
  ExpectRefused(
      "vllm", SaneVllm(),
      {{"Canary", "POST /v1/completions", R"({"choices":[]})"},
       {"Canary", "POST /v1/completions", R"({"choices":[{"logprobs":null}]})"},
       {"Canary", "POST /v1/completions", R"({"choices":[{"logprobs":{"token_logprobs":[]}}]})"}});
}

TEST(HostileTest, APromptThatCameFromACache) {
  for (const char* value : {"1", "\"0\"", "-1", "0.5"}) {
    ExpectRefused("vllm", SaneVllm(),
                  {{"Canary", "POST /v1/completions",
                    fmt::format(R"({{"choices":[{{"logprobs":{{"token_logprobs":[-1]}}}}],
                          "usage":{{"prompt_tokens_details":{{"cached_tokens":{}}}}}}})",
                                value)}});
    ExpectRefused(
        "sglang", SaneSglang(),
        {{"Canary", "POST /generate",
          fmt::format(R"({{"meta_info":{{"output_token_logprobs":[[-1,5]],"cached_tokens":{}}}}})",
                      value)}});
  }
}

TEST(HostileTest, AServerThatSaysYesToEverythingIsNoEngine) {
  for (const char* kind : {"vllm", "sglang"}) {
    for (const char* body : {"hello", "{}", R"({"status":"ok"})", R"({"paths":{}})"}) {
      ScriptedEngine engine(kind, {{"GET /openapi.json", {body}}});
      EXPECT_THROW(
          engine.Run([](Engine& port) { return isthmus::testing::CallByName(port, "Probe"); }),
          Error);
    }
  }
}

TEST(HostileTest, WhatIsNotHttpIsSaid) {
  RawListener listener;
  LoopThread loop;
  std::unique_ptr<Engine> engine = loop.Do([&] {
    return MakeEngine(loop.loop(), {"vllm", "http://" + listener.origin().Authority()}, {});
  });
  for (const auto& [bytes, code] : std::vector<std::pair<std::string, ErrorCode>>{
           {"SSH-2.0-OpenSSH\r\n\r\n", ErrorCode::kCorrupt},
           {"", ErrorCode::kUnavailable},
           {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", ErrorCode::kUnavailable}}) {
    auto probe = loop.Spawn([&] { return engine->Probe(); });
    RawSocket peer = listener.Accept();
    peer.ReceiveUntil("\r\n\r\n");
    peer.Send(bytes);
    peer.Close();
    ExpectError(
        code, [&] { probe.get(); }, "GET /openapi.json");
  }
  loop.Do([&] { engine.reset(); });
}

TEST(HostileTest, AnAnswerThatNeverEndsIsLeftAtTheDeadline) {
  RawListener listener;
  LoopThread loop;
  EngineOptions options;
  options.limits.probe = net::Milliseconds(100);
  std::unique_ptr<Engine> engine = loop.Do([&] {
    return MakeEngine(loop.loop(), {"vllm", "http://" + listener.origin().Authority()}, options);
  });
  auto probe = loop.Spawn([&] { return engine->Probe(); });
  RawSocket peer = listener.Accept();
  peer.ReceiveUntil("\r\n\r\n");
  peer.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  ExpectError(
      ErrorCode::kUnavailable, [&] { probe.get(); }, "GET /openapi.json", "not done within");
  EXPECT_EQ(peer.ReceiveAll(), "");
  loop.Do([&] { engine.reset(); });
}

TEST(HostileTest, NobodyThereIsUnavailable) {
  std::optional<RawListener> listener(std::in_place);
  const std::string url = "http://" + listener->origin().Authority();
  listener.reset();
  LoopThread loop;
  std::unique_ptr<Engine> engine = loop.Do([&] {
    return MakeEngine(loop.loop(), {"sglang", url}, {});
  });
  ExpectError(
      ErrorCode::kUnavailable, [&] { loop.Run([&] { return engine->Probe(); }); }, "refused");
  loop.Do([&] { engine.reset(); });
}

TEST(HostileTest, LongAnswersOfErrorsAreCut) {
  ScriptedEngine engine("vllm", {{"GET /openapi.json", {std::string(100'000, '\n'), 500}}});
  try {
    engine.Run([](Engine& port) { return isthmus::testing::CallByName(port, "Probe"); });
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 1000U);
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
  }
}

}  // namespace
}  // namespace isthmus::engine
