#include "bench/proxy_engine.h"

#include <fmt/format.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::bench {
namespace {

namespace json = boost::json;
using net::Task;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kMaxBodyBytes = uint64_t{1} << 20;
// As an engine's event loop writes a large answer.
constexpr size_t kPieceBytes = size_t{256} << 10;

constexpr std::string_view kSmallAnswer =
    R"({"id":"cmpl-0123456789abcdef","object":"text_completion","created":1700000000,)"
    R"("model":"bench","choices":[{"index":0,"text":" x","token_ids":[87],)"
    R"("logprobs":{"tokens":[" x"],"token_logprobs":[-0.125],"top_logprobs":null},)"
    R"("finish_reason":"length"}],)"
    R"("usage":{"prompt_tokens":40,"completion_tokens":1,"total_tokens":41}})";

constexpr std::string_view kVersion = "1";  // that an island serves

constexpr std::string_view kLogProbability = "-0.12345678901234567,";

int64_t NowNs() { return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

Task<void> SleepUntil(Clock::time_point at) {
  using Timer =
      net::asio::basic_waitable_timer<Clock, net::asio::wait_traits<Clock>, net::Executor>;
  Timer timer(co_await net::asio::this_coro::executor, at);
  co_await timer.async_wait(net::kAwait);
}

std::string LargeAnswer(size_t bytes) {
  std::string text = R"({"id":"cmpl-0","object":"text_completion","choices":[{"index":0,"text":"",)"
                     R"("logprobs":{"token_logprobs":[)";
  text.reserve(bytes + kLogProbability.size());
  while (text.size() < bytes) text.append(kLogProbability);
  return text + R"(0]},"finish_reason":"length"}]})";
}

std::string ServerInfo(const std::string& run) {
  return fmt::format(R"({{"run":"{}","state":"ready","ready":true,"gate":"open","applied":{},)"
                     R"("board":{{"newest":{}}},"in_flight":0,"waiting":0}})",
                     run, kVersion, kVersion);
}

// The routes that the adapter for vLLM asks for, as FastAPI lists them.
std::string OpenApi() {
  const auto query = [](std::string_view name, json::value schema) {
    return json::value{{"parameters", {{{"name", name}, {"in", "query"}, {"schema", schema}}}}};
  };
  const json::value modes = {{"enum", {"abort", "wait", "keep"}}};
  const json::value none = {{"parameters", json::array()}};
  const json::value salted = {{"properties", {{"cache_salt", json::object()}}}};
  const json::value completions = {
      {"requestBody", {{"content", {{"application/json", {{"schema", salted}}}}}}}};
  const json::value paths = {{"/pause", {{"post", query("mode", modes)}}},
                             {"/resume", {{"post", none}}},
                             {"/is_paused", {{"get", none}}},
                             {"/collective_rpc", {{"post", none}}},
                             {"/reset_prefix_cache", {{"post", none}}},
                             {"/weight_info", {{"get", none}}},
                             {"/update_weight_version", {{"post", none}}},
                             {"/v1/models", {{"get", none}}},
                             {"/v1/completions", {{"post", completions}}}};
  return json::serialize(json::value{{"openapi", "3.1.0"}, {"paths", paths}});
}

}  // namespace

// What the field "bench" of a completion's body asks for.
struct ProxyEngine::Wish {
  int64_t events = 0, interval_us = 0, bytes = 0, turn = -1, hold_ms = 0;
  bool canary = false;

  static Wish Of(std::string_view body) {
    Wish wish;
    const json::value parsed = json::parse(body);
    const json::value* prompt = parsed.as_object().if_contains("prompt");
    wish.canary = prompt != nullptr && prompt->is_array();
    const json::value* asked = parsed.as_object().if_contains("bench");
    if (asked == nullptr) return wish;
    const auto read = [asked](std::string_view name, int64_t* into) {
      const json::value* field = asked->as_object().if_contains(name);
      if (field != nullptr) *into = field->to_number<int64_t>();
    };
    read("events", &wish.events);
    read("interval_us", &wish.interval_us);
    read("bytes", &wish.bytes);
    read("turn", &wish.turn);
    read("hold_ms", &wish.hold_ms);
    return wish;
  }
};

ProxyEngine::ProxyEngine(std::chrono::milliseconds load, std::string run)
    : load_(load), run_(std::move(run)) {}

net::ResponseHead ProxyEngine::HeadOf(std::string_view type, bool whole) const {
  net::ResponseHead head;
  head.headers.Add("Content-Type", type);
  if (run_.empty()) return head;
  head.headers.Add("Isthmus-Run", run_);
  head.headers.Add("Isthmus-Version-Start", kVersion);
  if (whole) head.headers.Add("Isthmus-Version-End", kVersion);
  return head;
}

Task<void> ProxyEngine::AnswerJson(net::Exchange& exchange, std::string_view body) {
  co_await exchange.Respond(HeadOf("application/json", true), body);
}

Task<void> ProxyEngine::Handle(net::Exchange& exchange) {
  if (exchange.request().target == "/v1/completions") return Complete(exchange);
  return Control(exchange);
}

Task<void> ProxyEngine::Complete(net::Exchange& exchange) {
  const auto arrived = Clock::now();
  const std::string body = co_await exchange.ReadBody(kMaxBodyBytes);
  const Wish wish = Wish::Of(body);
  if (wish.events > 0) co_return co_await SendEvents(exchange, wish);
  if (wish.bytes > 0) co_return co_await SendLarge(exchange, static_cast<size_t>(wish.bytes));
  if (wish.turn >= 0) {
    arrivals_.push_back({wish.turn, arrived.time_since_epoch() / std::chrono::nanoseconds(1)});
    co_await SleepUntil(arrived + std::chrono::milliseconds(wish.hold_ms));
  }
  if (wish.canary) canary_ns_ = NowNs();
  co_await AnswerJson(exchange, kSmallAnswer);
}

Task<void> ProxyEngine::SendEvents(net::Exchange& exchange, const Wish& wish) {
  const auto begin = Clock::now();
  exchange.Start(HeadOf("text/event-stream; charset=utf-8", false));
  std::string event;
  for (int64_t i = 0; i < wish.events; ++i) {
    co_await SleepUntil(begin + i * std::chrono::microseconds(wish.interval_us));
    event = fmt::format(
        R"(data: {{"id":"cmpl-0","object":"text_completion","model":"bench","choices":[{{)"
        R"("index":0,"text":" x","token_ids":[87],"finish_reason":null}}],)"
        R"("sequence":{},"sent_ns":{}}})"
        "\n\n",
        i, NowNs());
    co_await exchange.Write(event);
  }
  co_await exchange.Finish("data: [DONE]\n\n");
}

Task<void> ProxyEngine::SendLarge(net::Exchange& exchange, size_t bytes) {
  if (large_.size() < bytes || large_.size() > bytes + kPieceBytes) large_ = LargeAnswer(bytes);
  net::ResponseHead head = HeadOf("application/json", true);
  head.headers.Add("Content-Length", std::to_string(large_.size()));
  exchange.Start(std::move(head));
  const std::string_view text = large_;
  for (size_t at = 0; at < text.size(); at += kPieceBytes) {
    co_await exchange.Write(text.substr(at, kPieceBytes));
  }
  co_await exchange.Finish();
}

Task<void> ProxyEngine::Control(net::Exchange& exchange) {
  const std::string target = exchange.request().target;
  const std::string path = target.substr(0, target.find('?'));
  const std::string body = co_await exchange.ReadBody(kMaxBodyBytes);
  if (path == "/collective_rpc" && body.find("reload_weights") != body.npos) {
    co_await SleepUntil(Clock::now() + load_);
  }
  const std::string answer = ControlAnswer(path, body);
  if (answer.empty()) Throw(ErrorCode::kNotFound, "{}: no such route", path);
  co_await AnswerJson(exchange, answer);
}

std::string ProxyEngine::ControlAnswer(const std::string& path, const std::string& body) {
  if (path == "/openapi.json") return OpenApi();
  if (path == "/collective_rpc") return R"({"results":[null]})";
  if (path == "/is_paused") return fmt::format(R"({{"is_paused":{}}})", paused_);
  if (path == "/reset_prefix_cache") return R"({"success":true})";
  if (path == "/v1/models") return R"({"data":[{"id":"bench"}]})";
  if (path == "/weight_info") return fmt::format(R"({{"weight_version":"{}"}})", label_);
  if (path == "/bench/arrivals") return Arrivals();
  if (path == "/health") return "{}";
  if (path == "/server_info" && !run_.empty()) return ServerInfo(run_);
  if (path == "/pause" || path == "/resume") {
    paused_ = path == "/pause";
    return fmt::format(R"({{"status":"{}d"}})", paused_ ? "pause" : "resume");
  }
  if (path == "/update_weight_version") {
    label_ = json::value_to<std::string>(json::parse(body).at("new_version"));
    return R"({"success":true})";
  }
  return "";
}

std::string ProxyEngine::Arrivals() {
  json::array turns;
  for (const Arrival& one : arrivals_) turns.push_back({one.turn, one.at_ns});
  arrivals_.clear();
  return json::serialize(json::value{{"canary_ns", canary_ns_}, {"turns", std::move(turns)}});
}

}  // namespace isthmus::bench
