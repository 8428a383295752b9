#include "isthmus/gateway/prober.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <deque>
#include <optional>
#include <unordered_set>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/net/within.h"

namespace isthmus::gateway {
namespace {

using net::Task;

constexpr int kSuccess = 200;
// How much more often than islands are asked it is looked whom to ask.
constexpr int kLooks = 10;

net::ClientLimits LimitsOf(const ProberOptions& options) {
  net::ClientLimits limits;
  limits.connect = limits.first_byte = limits.idle = limits.stall = options.limit;
  limits.piece_bytes = size_t{64} << 10;
  limits.head_bytes = size_t{16} << 10;
  limits.pooled_per_origin = 1;
  return limits;
}

// Variables and not temporaries: GCC 12 destroys those of a co_await expression twice.
Task<std::string> Fetch(net::Client& client, net::Origin origin, net::RequestHead head) {
  net::Call call = co_await client.Send(origin, std::move(head));
  const int status = call.head().status;
  if (status != kSuccess) {
    Throw(ErrorCode::kUnavailable, "{}: /server_info answered {}", origin.Authority(), status);
  }
  co_return co_await call.ReadBody(kMaxReportBytes);
}

}  // namespace

struct Prober::State : std::enable_shared_from_this<State> {
  State(net::Loop& l, ProberOptions o, Pool& p, std::function<void()> news)
      : loop(l),
        options(std::move(o)),
        pool(p),
        on_news(std::move(news)),
        client(loop, LimitsOf(options), options.tls),
        timer(loop.get_executor()) {}

  net::Loop& loop;
  ProberOptions options;
  Pool& pool;
  std::function<void()> on_news;
  net::Client client;
  net::SteadyTimer timer;
  std::string token;
  bool stopped = false;
  std::deque<uint32_t> line;
  std::unordered_set<uint32_t> busy;  // in line or being asked
  size_t asking = 0;
  ProberCounters counters;

  static Task<void> Work(std::shared_ptr<State> self);
  static Task<void> Ask(std::shared_ptr<State> self, uint32_t place);
  void AskNext();
  bool IsThere(uint32_t place, const std::string& id, const net::Origin& url) const;
};

Task<void> Prober::State::Work(std::shared_ptr<State> self) {
  while (!self->stopped) {
    for (const uint32_t place : self->pool.DuePolls(self->options.every, MonotonicNow())) {
      if (self->busy.insert(place).second) self->line.push_back(place);
    }
    self->AskNext();
    self->timer.expires_after(std::max(self->options.every / kLooks, milliseconds(1)));
    boost::system::error_code ignored;
    co_await self->timer.async_wait(net::asio::redirect_error(net::kAwait, ignored));
  }
}

void Prober::State::AskNext() {
  while (asking < options.at_once && !line.empty()) {
    const uint32_t place = line.front();
    line.pop_front();
    ++asking;
    net::asio::co_spawn(loop.get_executor(), Ask(shared_from_this(), place), net::asio::detached);
  }
}

// It may have left, and another one may have its place, while it was asked.
bool Prober::State::IsThere(uint32_t place, const std::string& id, const net::Origin& url) const {
  return pool.id(place) == id && pool.url(place) == url;
}

Task<void> Prober::State::Ask(std::shared_ptr<State> self, uint32_t place) {
  if (self->stopped) co_return;
  const std::string id = self->pool.id(place);
  const net::Origin url = self->pool.url(place);
  net::RequestHead head;
  head.target = "/server_info";
  if (!self->token.empty()) head.headers.Add("Authorization", "Bearer " + self->token);
  std::optional<IslandReport> report;
  std::string trouble;
  ++self->counters.asked;
  try {
    Task<std::string> fetching = Fetch(self->client, url, std::move(head));
    std::string what = fmt::format("ask {} for its state", url.Authority());
    const std::string text =
        co_await net::Within(self->options.limit, std::move(fetching), std::move(what));
    report = ReadReport(std::string_view(text));
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  --self->asking;
  self->busy.erase(place);
  if (self->stopped) co_return;
  if (!report) ++self->counters.failed;
  if (self->IsThere(place, id, url)) {
    if (report) {
      self->pool.OnReport(place, std::move(*report), MonotonicNow());
    } else {
      self->pool.OnUnreachable(place, trouble, MonotonicNow());
    }
    if (self->on_news) self->on_news();
  }
  self->AskNext();
}

Prober::Prober(net::Loop& loop, ProberOptions options, Pool& pool, std::function<void()> on_news)
    : state_(std::make_shared<State>(loop, std::move(options), pool, std::move(on_news))) {}

Prober::~Prober() { Stop(); }

void Prober::set_token(std::string token) { state_->token = std::move(token); }

void Prober::Start() {
  net::asio::co_spawn(state_->loop.get_executor(), State::Work(state_), net::asio::detached);
}

void Prober::Stop() {
  state_->stopped = true;
  state_->timer.cancel();
}

const ProberCounters& Prober::counters() const { return state_->counters; }

}  // namespace isthmus::gateway
