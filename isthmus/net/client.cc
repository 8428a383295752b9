#include "isthmus/net/client.h"

#include <algorithm>
#include <utility>

#include "isthmus/net/call_state.h"

namespace isthmus::net {
namespace {

bool MayReplay(Replay replay, std::string_view method) {
  static constexpr std::string_view kIdempotent[] = {"GET", "HEAD",   "OPTIONS",
                                                     "PUT", "DELETE", "TRACE"};
  return replay == Replay::kAlways ||
         (replay == Replay::kIfIdempotent && std::ranges::count(kIdempotent, method) > 0);
}

}  // namespace

Client::Client(Loop& loop, ClientLimits limits, std::shared_ptr<const ClientTls> tls)
    : pool_(std::make_shared<ConnectionPool>(loop, limits, std::move(tls))) {}

Client::~Client() { pool_->Close(); }

const ClientCounters& Client::counters() const { return pool_->counters(); }

Task<Call> Client::Send(const Origin& origin, RequestHead head, std::string_view body,
                        Replay replay) {
  auto state = std::make_unique<Call::State>(pool_, origin);
  state->Prepare(std::move(head), body.size());
  const bool may_replay = MayReplay(replay, state->method());
  bool again = false;
  do {
    co_await state->Open(again);
    again = co_await state->Exchange(body, may_replay);
  } while (again);
  co_return Call(std::move(state));
}

Task<Call> Client::Begin(const Origin& origin, RequestHead head,
                         std::optional<uint64_t> body_bytes) {
  auto state = std::make_unique<Call::State>(pool_, origin);
  state->Prepare(std::move(head), body_bytes);
  co_await state->Open(false);
  co_return Call(std::move(state));
}

}  // namespace isthmus::net
