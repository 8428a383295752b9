#include "isthmus/net/connection_pool.h"

#include <algorithm>

#include "isthmus/net/resolve.h"

namespace isthmus::net {
namespace {

using asio::ip::tcp;

Milliseconds ShortestOf(const ClientLimits& limits) {
  Milliseconds shortest{8000};
  for (Milliseconds one :
       {limits.connect, limits.first_byte, limits.idle, limits.stall, limits.pooled}) {
    if (one > Milliseconds(0)) shortest = std::min(shortest, one);
  }
  return shortest;
}

}  // namespace

ConnectionPool::ConnectionPool(Loop& loop, ClientLimits limits,
                               std::shared_ptr<const ClientTls> tls)
    : loop_(loop),
      limits_(limits),
      tls_(std::move(tls)),
      deadlines_(std::make_shared<DeadlineList>(loop, DeadlineList::TickFor(ShortestOf(limits)))) {}

Task<ConnectionPool::Lease> ConnectionPool::Take(const Origin& origin, bool fresh) {
  Unused& unused = unused_[origin];
  if (!fresh && !unused.empty()) {
    auto connection = std::move(unused.back());
    unused.pop_back();
    connection->OnUnasked(nullptr);
    connection->Limit(Milliseconds(0));
    ++counters_.reuses;
    --counters_.unused;
    co_return Lease{std::move(connection), true};
  }
  auto connection = co_await Connect(origin);
  ++counters_.connects;
  co_return Lease{std::move(connection), false};
}

void ConnectionPool::Return(const Origin& origin, std::shared_ptr<Connection> connection) {
  Unused& unused = unused_[origin];
  // Bytes that nobody asked for would be taken for the next answer.
  const bool usable = connection->open() && !connection->ended() && connection->unread().empty();
  if (closed_ || !usable || unused.size() >= limits_.pooled_per_origin) return connection->Close();
  connection->OnUnasked([weak = weak_from_this(), origin, one = connection.get()] {
    if (const auto self = weak.lock()) self->Forget(origin, one);
  });
  connection->Shrink();
  connection->ReadAhead();
  connection->Limit(limits_.pooled);
  unused.push_back(std::move(connection));
  ++counters_.unused;
}

void ConnectionPool::Forget(const Origin& origin, const Connection* connection) {
  Unused& unused = unused_[origin];
  const auto at = std::ranges::find(unused, connection, [](auto& one) { return one.get(); });
  if (at == unused.end()) return;
  (*at)->OnUnasked(nullptr);
  (*at)->Close();
  unused.erase(at);
  --counters_.unused;
}

void ConnectionPool::Close() {
  closed_ = true;
  for (auto& [origin, unused] : unused_) {
    for (const auto& connection : unused) connection->Close();
  }
  unused_.clear();
  counters_.unused = 0;
}

Task<std::shared_ptr<Connection>> ConnectionPool::Connect(const Origin& origin) {
  const auto endpoints = co_await Resolve(origin);
  std::string problem = "no address";
  for (const tcp::endpoint& endpoint : endpoints) {
    try {
      auto connection = co_await ConnectTo(origin, endpoint);
      co_return connection;
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  Throw(ErrorCode::kUnavailable, "connect to {}: {}", origin.Authority(), problem);
}

Task<std::shared_ptr<Connection>> ConnectionPool::ConnectTo(const Origin& origin,
                                                            const tcp::endpoint& endpoint) {
  Socket socket(loop_.get_executor());
  boost::system::error_code error;
  socket.open(endpoint.protocol(), error);
  if (error) Throw(ErrorCode::kUnavailable, "open a socket: {}", error.message());
  auto connection =
      std::make_shared<Connection>(std::move(socket), deadlines_, limits_.piece_bytes);
  connection->Limit(limits_.connect);
  co_await connection->Connect(endpoint);
  if (origin.tls) {
    if (!tls_) tls_ = std::make_shared<ClientTls>(std::nullopt, std::nullopt);
    co_await connection->Handshake(tls_->current(), origin.host);
  }
  connection->Limit(Milliseconds(0));
  co_return connection;
}

}  // namespace isthmus::net
