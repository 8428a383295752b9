#include "isthmus/sidecar/announcer.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <list>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"
#include "isthmus/board/manifest.h"
#include "isthmus/net/within.h"

namespace isthmus::sidecar {
namespace {

namespace json = boost::json;
using net::Milliseconds;
using net::Task;

constexpr size_t kMaxIdBytes = 128;
constexpr uint64_t kMaxAnswerBytes = 64 << 10;
constexpr size_t kShownAnswerBytes = 300;
constexpr int kSuccess = 2;  // of status / 100
constexpr Milliseconds kFirstPause{250};
// Of the TTL: three more words within it, the time that they take left over.
constexpr double kWordsInTtl = 3.5;

net::ClientLimits Limits() {
  net::ClientLimits limits;
  limits.connect = limits.first_byte = limits.idle = limits.stall = Announcer::kCallLimit;
  limits.pooled_per_origin = 1;
  return limits;
}

// A gateway, and how it was with it last.
struct Gateway {
  net::Origin origin;
  net::SteadyTimer timer;
  std::string name = {};    // of its instance, as it says
  json::array told = {};    // KeyOf what it was told last
  bool answers = false;     // the last word came there
  bool complained = false;  // an event says that it does not
  Milliseconds pause = kFirstPause;
};

// What is told at once when it changes.
json::array KeyOf(const json::object& info) {
  json::array key;
  for (const char* member : {"state", "gate", "applied", "target", "ready"}) {
    const json::value* value = info.if_contains(member);
    key.push_back(value == nullptr ? json::value() : *value);
  }
  return key;
}

std::string TextOf(const json::value& answer, std::string_view member) {
  const json::object* object = answer.if_object();
  const json::value* value = object == nullptr ? nullptr : object->if_contains(member);
  return value == nullptr || !value->is_string() ? "" : std::string(value->get_string());
}

}  // namespace

std::string DefaultIslandId(std::string host_name, uint16_t port) {
  for (char& c : host_name) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!allowed) c = '-';
  }
  const std::string end = fmt::format("-{}", port);
  host_name.resize(std::min(host_name.size(), kMaxIdBytes - end.size()));
  if (host_name.starts_with('.')) host_name.front() = '-';
  return host_name + end;
}

std::string AdvertisedUrl(const std::string& host, uint16_t port, bool tls) {
  boost::system::error_code error;
  const auto address = net::asio::ip::make_address(host, error);
  if (error || address.is_unspecified()) {
    Throw(ErrorCode::kInvalid,
          "read --gateway: gateways cannot tell from --listen {} where the island is; name its URL "
          "by --advertise",
          host);
  }
  return fmt::format("{}://{}", tls ? "https" : "http", net::Origin{tls, host, port}.Authority());
}

struct Announcer::State : std::enable_shared_from_this<State> {
  State(net::Loop& l, AnnouncerOptions o, Info i, observe::EventLog& e)
      : loop(l),
        options(std::move(o)),
        info(std::move(i)),
        events(&e),
        client(loop, Limits(), options.tls),
        left(loop.get_executor()),
        instance(RandomId()) {
    for (const net::Origin& origin : options.gateways) {
      gateways.push_back({origin, net::SteadyTimer(loop.get_executor())});
    }
  }

  net::Loop& loop;
  AnnouncerOptions options;
  Info info;
  observe::EventLog* events;
  net::Client client;
  net::SteadyTimer left;
  std::string instance;
  std::list<Gateway> gateways;
  bool leaving = false;
  bool abandoned = false;  // what `info` and `events` need may be gone
  size_t running = 0;

  static Task<void> Follow(std::shared_ptr<State> self, Gateway* gateway);
  Task<void> Tell(Gateway* gateway, bool leaves);
  Task<std::string> Post(net::Origin origin, std::string body);
  std::string Body(Gateway* gateway, bool leaves);
  void OnTold(Gateway* gateway, const std::string& answer) const;
  void OnMissed(Gateway* gateway, const std::string& why) const;
  Milliseconds PauseOf(Gateway* gateway) const;
};

std::string Announcer::State::Body(Gateway* gateway, bool leaves) {
  json::object now = info();
  gateway->told = KeyOf(now);
  return json::serialize(json::object{{"id", options.island_id},
                                      {"instance", instance},
                                      {"url", options.advertise},
                                      {"ttl_ms", options.ttl.count()},
                                      {"state", leaves ? "leaving" : "serving"},
                                      {"info", std::move(now)}});
}

// Variables and not temporaries: GCC 12 destroys those of a co_await expression twice.
Task<std::string> Announcer::State::Post(net::Origin origin, std::string body) {
  net::RequestHead head;
  head.method = "POST";
  head.target = "/v1/islands";
  head.headers.Add("Content-Type", "application/json");
  if (!options.token.empty()) head.headers.Add("Authorization", "Bearer " + options.token);
  net::Call call = co_await client.Send(origin, std::move(head), body, net::Replay::kAlways);
  const int status = call.head().status;
  std::string answer = co_await call.ReadBody(kMaxAnswerBytes);
  if (status / 100 == kSuccess) co_return answer;
  Throw(ErrorCode::kUnavailable, "register at {}: it answered {}: {}", origin.Authority(), status,
        answer.substr(0, kShownAnswerBytes));
}

Task<void> Announcer::State::Tell(Gateway* gateway, bool leaves) {
  std::string answer, trouble;
  try {
    Task<std::string> posting = Post(gateway->origin, Body(gateway, leaves));
    std::string what = fmt::format("register at {}", gateway->origin.Authority());
    answer = co_await net::Within(kCallLimit, std::move(posting), std::move(what));
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  if (abandoned) co_return;
  if (trouble.empty()) {
    OnTold(gateway, answer);
  } else {
    OnMissed(gateway, trouble);
  }
}

void Announcer::State::OnTold(Gateway* gateway, const std::string& answer) const {
  boost::system::error_code ignored;
  const std::string name = TextOf(json::parse(answer, ignored), "gateway");
  if (!gateway->answers || gateway->name != name) {
    events->Write("gateway_joined", {{"gateway", gateway->origin.Authority()}, {"instance", name}});
  }
  gateway->name = name;
  gateway->answers = true;
  gateway->complained = false;
  gateway->pause = kFirstPause;
}

void Announcer::State::OnMissed(Gateway* gateway, const std::string& why) const {
  gateway->answers = false;
  if (std::exchange(gateway->complained, true)) return;
  events->Write("gateway_lost", {{"gateway", gateway->origin.Authority()}, {"error", why}});
}

Milliseconds Announcer::State::PauseOf(Gateway* gateway) const {
  const auto heartbeat = std::chrono::duration_cast<Milliseconds>(options.ttl / kWordsInTtl);
  if (gateway->answers) return heartbeat;
  const Milliseconds pause = std::min(gateway->pause, heartbeat);
  gateway->pause = std::min(2 * gateway->pause, heartbeat);
  return pause;
}

Task<void> Announcer::State::Follow(std::shared_ptr<State> self, Gateway* gateway) {
  while (!self->leaving) {
    co_await self->Tell(gateway, false);
    if (self->leaving) break;
    // What changed while it was told is told now.
    const bool changed = gateway->answers && KeyOf(self->info()) != gateway->told;
    if (changed) continue;
    gateway->timer.expires_after(self->PauseOf(gateway));
    boost::system::error_code ignored;
    co_await gateway->timer.async_wait(net::asio::redirect_error(net::kAwait, ignored));
  }
  if (!self->abandoned) co_await self->Tell(gateway, true);
  if (--self->running == 0) self->left.cancel();
}

Announcer::Announcer(net::Loop& loop, AnnouncerOptions options, Info info,
                     observe::EventLog& events)
    : state_(std::make_shared<State>(loop, std::move(options), std::move(info), events)) {
  if (state_->options.gateways.empty()) return;
  try {
    board::CheckRunName(state_->options.island_id);  // the same characters
  } catch (const Error&) {
    Throw(ErrorCode::kInvalid,
          "read --island-id {:?}: expected 1 to {} characters of [A-Za-z0-9._-], not beginning "
          "with '.'",
          state_->options.island_id.substr(0, 2 * kMaxIdBytes), kMaxIdBytes);
  }
  try {
    net::Origin::Parse(state_->options.advertise);
  } catch (const Error& error) {
    throw error.Annotated("read --advertise");
  }
}

Announcer::~Announcer() {
  state_->leaving = state_->abandoned = true;
  for (Gateway& gateway : state_->gateways) gateway.timer.cancel();
}

void Announcer::Start() {
  for (Gateway& gateway : state_->gateways) {
    ++state_->running;
    net::asio::co_spawn(state_->loop.get_executor(), State::Follow(state_, &gateway),
                        net::asio::detached);
  }
}

void Announcer::Nudge() {
  State& state = *state_;
  if (state.running == 0 || state.leaving) return;
  const json::array key = KeyOf(state.info());
  for (Gateway& gateway : state.gateways) {
    if (gateway.answers && gateway.told != key) gateway.timer.cancel();
  }
}

Task<void> Announcer::Leave() {
  const std::shared_ptr<State> state = state_;
  state->leaving = true;
  for (Gateway& gateway : state->gateways) gateway.timer.cancel();
  if (state->running > 0) {
    state->left.expires_after(kLeaveLimit);
    boost::system::error_code ignored;
    co_await state->left.async_wait(net::asio::redirect_error(net::kAwait, ignored));
  }
  state->abandoned = true;
}

}  // namespace isthmus::sidecar
