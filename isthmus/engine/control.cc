#include "isthmus/engine/control.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

#include "isthmus/net/within.h"

namespace isthmus::engine {
namespace {

// An engine's OpenAPI document, the largest answer that is wanted, has less than one.
constexpr uint64_t kMaxAnswerBytes = 16 << 20;

// Times are the budget's affair, except that an address nobody answers at is given up soon.
net::ClientLimits Limits() {
  net::ClientLimits limits;
  limits.first_byte = limits.idle = limits.stall = net::Milliseconds(0);
  limits.pooled_per_origin = 0;
  return limits;
}

}  // namespace

net::Milliseconds Budget::left() const {
  return std::max(net::Milliseconds(0), std::chrono::ceil<net::Milliseconds>(end_ - Clock::now()));
}

Control::Control(net::Loop& loop, std::string engine, net::Origin origin, std::string bearer_token,
                 std::shared_ptr<const net::ClientTls> tls)
    : engine_(std::move(engine)),
      origin_(std::move(origin)),
      bearer_token_(std::move(bearer_token)),
      client_(loop, Limits(), std::move(tls)) {}

Task<Answer> Control::TryGet(Budget budget, std::string target) {
  return Call(budget, "GET", std::move(target), {});
}

Task<Answer> Control::TryPost(Budget budget, std::string target, boost::json::value body) {
  std::string text = boost::json::serialize(body);
  Answer answer = co_await Call(budget, "POST", std::move(target), std::move(text));
  co_return answer;
}

Task<Answer> Control::Get(Budget budget, std::string target) {
  Answer answer = co_await Call(budget, "GET", std::move(target), {});
  answer.RequireSuccess();
  co_return answer;
}

Task<Answer> Control::Post(Budget budget, std::string target) {
  Answer answer = co_await Call(budget, "POST", std::move(target), {});
  answer.RequireSuccess();
  co_return answer;
}

Task<Answer> Control::Post(Budget budget, std::string target, boost::json::value body) {
  Answer answer = co_await TryPost(budget, std::move(target), std::move(body));
  answer.RequireSuccess();
  co_return answer;
}

Task<Answer> Control::Call(Budget budget, std::string method, std::string target,
                           std::string body) {
  std::string call = fmt::format("{}: {} {}", engine_, method, target);
  net::RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  if (!body.empty()) head.headers.Add("Content-Type", "application/json");
  if (!bearer_token_.empty()) head.headers.Add("Authorization", "Bearer " + bearer_token_);
  const net::Milliseconds left = budget.left();
  auto exchange = Exchange(call, std::move(head), std::move(body));
  Answer answer = co_await net::Within(left, std::move(exchange), std::move(call));
  co_return answer;
}

Task<Answer> Control::Exchange(std::string call, net::RequestHead head, std::string body) {
  try {
    net::Call sent = co_await client_.Send(origin_, std::move(head), body, net::Replay::kNever);
    const int status = sent.head().status;
    std::string text = co_await sent.ReadBody(kMaxAnswerBytes);
    co_return Answer(std::move(call), status, std::move(text));
  } catch (const Error& error) {
    throw error.Annotated(call);
  }
}

}  // namespace isthmus::engine
