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

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_SCRIPTED_ENGINE_H_
