#include "isthmus/net/server.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <set>

#include "isthmus/net/session.h"

namespace isthmus::net {
namespace {

using asio::ip::tcp;
using boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;

// How long to wait when no connection can be taken (no descriptor is left): some will end.
constexpr Milliseconds kAcceptPause{100};

tcp::endpoint Resolve(Loop& loop, const ServerOptions& options) {
  error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  if (!error) return {address, options.port};
  tcp::resolver resolver(loop);
  const auto found = resolver.resolve(options.host, "", tcp::resolver::passive, error);
  if (error || found.empty()) {
    Throw(ErrorCode::kInvalid, "listen on {}: {}", options.host, error.message());
  }
  return {found.begin()->endpoint().address(), options.port};
}

Milliseconds ShortestOf(const ServerLimits& limits) {
  Milliseconds shortest{8000};
  for (Milliseconds one : {limits.head, limits.idle, limits.body, limits.stall, limits.linger}) {
    if (one > Milliseconds(0)) shortest = std::min(shortest, one);
  }
  return shortest;
}

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Server::Impl> {
 public:
  Impl(Loop& loop, ServerOptions options, Handler handler)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        loop_(loop),
        acceptor_(loop.get_executor()),
        deadlines_(std::make_shared<DeadlineList>(
            loop, DeadlineList::TickFor(ShortestOf(options_.limits)))) {}

  void Listen();
  void Begin();
  void Close();
  Task<void> Drain(Milliseconds deadline);

  uint16_t port() const { return port_; }
  const ServerCounters& counters() const { return counters_; }

 private:
  Task<void> Accept();
  Task<void> Pause();
  void Serve(Socket socket);
  static Task<void> RunSession(std::shared_ptr<Impl> self, std::shared_ptr<ServerSession> session);
  void AbortAll();

  ServerOptions options_;
  Handler handler_;
  Loop& loop_;
  Acceptor acceptor_;
  uint16_t port_ = 0;
  std::shared_ptr<DeadlineList> deadlines_;
  std::set<std::shared_ptr<ServerSession>> sessions_;
  ServerCounters counters_;
  Wakeup ended_;      // a session ended while Accept waits for room
  Wakeup all_ended_;  // what Drain waits for
  Deadline drain_deadline_{deadlines_, [this] { AbortAll(); }};
};

void Server::Impl::Listen() {
  const tcp::endpoint endpoint = Resolve(loop_, options_);
  error_code error;
  const auto check = [&](ErrorCode code) {
    if (error) Throw(code, "listen on {}:{}: {}", options_.host, options_.port, error.message());
  };
  acceptor_.open(endpoint.protocol(), error);
  check(ErrorCode::kUnavailable);
  acceptor_.set_option(Acceptor::reuse_address(true), error);
  if (options_.reuse_port) {
    using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;
    acceptor_.set_option(ReusePort(true), error);
  }
  acceptor_.bind(endpoint, error);
  check(error == asio::error::address_in_use ? ErrorCode::kUnavailable : ErrorCode::kInvalid);
  acceptor_.listen(Acceptor::max_listen_connections, error);
  check(ErrorCode::kUnavailable);
  acceptor_.non_blocking(true);
  port_ = acceptor_.local_endpoint().port();
}

void Server::Impl::Begin() {
  asio::co_spawn(
      loop_.get_executor(), [self = shared_from_this()] { return self->Accept(); },
      [self = shared_from_this()](const std::exception_ptr&) {});
}

Task<void> Server::Impl::Accept() {
  const auto self = shared_from_this();
  while (acceptor_.is_open()) {
    if (sessions_.size() >= options_.limits.connections) {
      co_await ended_.Wait();
      continue;
    }
    error_code error;
    Socket socket = co_await acceptor_.async_accept(asio::redirect_error(kAwait, error));
    if (!error) {
      Serve(std::move(socket));
    } else if (acceptor_.is_open() && error != asio::error::connection_aborted) {
      co_await Pause();
    }
  }
}

Task<void> Server::Impl::Pause() {
  using Steady = std::chrono::steady_clock;
  asio::basic_waitable_timer<Steady, asio::wait_traits<Steady>, Executor> timer(
      loop_.get_executor(), kAcceptPause);
  co_await timer.async_wait(kAwait);
}

void Server::Impl::Serve(Socket socket) {
  ++counters_.connections;
  ++counters_.open;
  auto connection =
      std::make_shared<Connection>(std::move(socket), deadlines_, options_.limits.piece_bytes);
  auto session = std::make_shared<ServerSession>(std::move(connection), options_, &counters_);
  sessions_.insert(session);
  auto ended = [self = shared_from_this(), session](const std::exception_ptr&) {
    self->sessions_.erase(session);
    --self->counters_.open;
    self->ended_.Fire();
    if (self->sessions_.empty()) self->all_ended_.Fire();
  };
  asio::co_spawn(loop_.get_executor(), RunSession(shared_from_this(), session),
                 asio::bind_cancellation_slot(session->slot(), std::move(ended)));
}

Task<void> Server::Impl::RunSession(std::shared_ptr<Impl> self,
                                    std::shared_ptr<ServerSession> session) {
  co_await session->Run(self->handler_);
}

void Server::Impl::Close() {
  error_code ignored;
  acceptor_.close(ignored);
  ended_.Fire();
  AbortAll();
}

void Server::Impl::AbortAll() {
  const auto sessions = sessions_;
  for (const auto& session : sessions) session->Abort();
}

Task<void> Server::Impl::Drain(Milliseconds deadline) {
  const auto self = shared_from_this();
  error_code ignored;
  acceptor_.close(ignored);
  ended_.Fire();
  const auto sessions = sessions_;
  for (const auto& session : sessions) session->Drain();
  drain_deadline_.Arm(std::max(deadline, Milliseconds(1)));
  while (!sessions_.empty()) co_await all_ended_.Wait();
  drain_deadline_.Disarm();
}

Server::Server(Loop& loop, ServerOptions options, Handler handler)
    : impl_(std::make_shared<Impl>(loop, std::move(options), std::move(handler))) {
  impl_->Listen();
  impl_->Begin();
}

Server::~Server() { impl_->Close(); }

uint16_t Server::port() const { return impl_->port(); }
const ServerCounters& Server::counters() const { return impl_->counters(); }
Task<void> Server::Drain(Milliseconds deadline) { return impl_->Drain(deadline); }

}  // namespace isthmus::net
