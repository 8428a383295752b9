// A server that answers control calls with what a test says.
#ifndef ISTHMUS_TESTS_SUPPORT_SCRIPTED_ENGINE_H_
#define ISTHMUS_TESTS_SUPPORT_SCRIPTED_ENGINE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isthmus/engine/engine.h"
#include "tests/support/net.h"

namespace isthmus::testing {

// Answers are found by "METHOD /path", without the query; what is not there is 404.
class ScriptedEngine {
 public:
  struct Answer {
    std::string body;
    int status = 200;
  };
  struct Request {
    std::string method;
    std::string target;
    std::string authorization;
    std::string content_type;
    std::string body;
  };
  using Answers = std::map<std::string, Answer>;

  // `kind` is that of the adapter. Its OpenAPI document, if `answers` has none, lists them all.
  ScriptedEngine(std::string kind, Answers answers, engine::EngineLimits limits = {},
                 std::string token = {}, std::string_view path = {})
      : answers_(std::move(answers)),
        server_([this](net::Exchange& exchange) { return Respond(exchange); }) {
    answers_.try_emplace("GET /openapi.json", Answer{Document()});
    const engine::EngineSpec spec = {std::move(kind),
                                     "http://" + server_.origin().Authority() + std::string(path)};
    loop_.Do([&] {
      engine_ = engine::MakeEngine(loop_.loop(), spec, {limits, std::move(token), nullptr});
    });
  }
  ~ScriptedEngine() {
    loop_.Do([&] { engine_.reset(); });
  }
  ScriptedEngine(const ScriptedEngine&) = delete;
  ScriptedEngine& operator=(const ScriptedEngine&) = delete;

  // Runs a coroutine: `call` is given the adapter.
  template <typename Call>
  auto Run(Call call) {
    return loop_.Run([this, &call] { return call(*engine_); });
  }
  void Set(const std::string& route, Answer answer) {
    server_.loop().Do([&] { answers_[route] = std::move(answer); });
  }
  std::vector<Request> Requests() {
    return server_.loop().Do([&] { return requests_; });
  }

 private:
  net::Task<void> Respond(net::Exchange& exchange) {
    const net::RequestHead& head = exchange.request();
    Request request = {
        head.method, head.target, Field(head, "Authorization"), Field(head, "Content-Type"), {}};
    request.body = co_await exchange.ReadBody(1 << 20);
    requests_.push_back(request);
    const std::string path = request.target.substr(0, request.target.find('?'));
    const auto at = answers_.find(request.method + " " + path);
    net::ResponseHead answer;
    answer.status = at == answers_.end() ? 404 : at->second.status;
    const std::string body = at == answers_.end() ? "{\"detail\":\"Not Found\"}" : at->second.body;
    co_await exchange.Respond(std::move(answer), body);
  }
  static std::string Field(const net::RequestHead& head, std::string_view name) {
    return std::string(head.headers.Find(name).value_or(""));
  }
  std::string Document() const {
    std::string paths;
    for (const auto& [route, answer] : answers_) {
      const size_t blank = route.find(' ');
      paths += fmt::format("{}\"{}\":{{\"{}\":{{}}}}", paths.empty() ? "" : ",",
                           route.substr(blank + 1), route[0] == 'P' ? "post" : "get");
    }
    return "{\"paths\":{" + paths + "}}";
  }

  Answers answers_;
  std::vector<Request> requests_;
  TestServer server_;
  LoopThread loop_;
  std::unique_ptr<engine::Engine> engine_;
};

// What a well-behaved vLLM says, as far as the adapter needs it.
inline ScriptedEngine::Answers SaneVllm() {
  return {{"POST /pause", {R"({"status":"paused"})"}},
          {"POST /resume", {R"({"status":"resumed"})"}},
          {"GET /is_paused", {R"({"is_paused":true})"}},
          {"POST /collective_rpc", {R"({"results":[null]})"}},
          {"POST /reset_prefix_cache", {R"({"success":true})"}},
          {"GET /weight_info", {R"({"weight_version":"v2"})"}},
          {"POST /update_weight_version", {R"({"success":true})"}},
          {"GET /v1/models", {R"({"data":[{"id":"m"}]})"}},
          {"POST /v1/completions", {R"({"choices":[{"logprobs":{"token_logprobs":[-1.5]}}]})"}}};
}

inline ScriptedEngine::Answers SaneSglang() {
  return {{"POST /pause_generation", {R"({"status":"ok"})"}},
          {"POST /continue_generation", {R"({"status":"ok"})"}},
          {"POST /update_weights_from_disk", {R"({"success":true})"}},
          {"POST /flush_cache", {"Cache flushed."}},
          {"GET /model_info", {R"({"weight_version":"v2","load_format":"auto"})"}},
          {"GET /server_info", {R"({"internal_states":[{}]})"}},
          {"GET /v1/loads", {R"({"loads":[{"num_running_reqs":0,"num_waiting_reqs":0}]})"}},
          {"POST /generate", {R"({"meta_info":{"output_token_logprobs":[[-1,5,null]]}})"}}};
}

// Makes the call of the port with that name; "Wait" is Pause(kWait).
inline net::Task<void> CallByName(engine::Engine& engine, std::string name) {
  if (name == "Probe") co_await engine.Probe();
  if (name == "Inspect") co_await engine.Inspect();
  if (name == "Settle") co_await engine.Settle();
  if (name == "Pause") co_await engine.Pause(engine::PauseMode::kKeep);
  if (name == "Wait") co_await engine.Pause(engine::PauseMode::kWait);
  if (name == "Load") co_await engine.Load("/v2", "v2");
  if (name == "Flush") co_await engine.Flush();
  if (name == "Verify") co_await engine.Verify("v2");
  if (name == "Resume") co_await engine.Resume();
  if (name == "Canary") co_await engine.Canary();
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_SCRIPTED_ENGINE_H_
