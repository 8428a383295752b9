#include "isthmus/net/tripwire.h"

#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <cerrno>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/net/resolve.h"

namespace isthmus::net {
namespace {

using asio::ip::tcp;
using Socket = asio::basic_stream_socket<tcp, Executor>;

// Returns its failure: what Within throws about is its own limit.
Task<boost::system::error_code> Connect(Socket& socket, const Origin& origin) {
  const std::vector<tcp::endpoint> endpoints = co_await Resolve(origin);
  boost::system::error_code error;
  co_await asio::async_connect(socket, endpoints, asio::redirect_error(kAwait, error));
  co_return error;
}

}  // namespace

struct Tripwire::Wire {
  explicit Wire(const Executor& executor) : socket(executor) {}

  // A byte that nobody asked for is the beginning of an end too, such as HTTP's 408.
  bool intact() {
    char byte = 0;
    const ssize_t got = ::recv(socket.native_handle(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  }

  Socket socket;
};

Tripwire::Tripwire(Loop& loop, Origin origin, std::function<void()> on_cut)
    : loop_(loop), origin_(std::move(origin)), on_cut_(std::move(on_cut)) {}

Tripwire::~Tripwire() = default;

Task<void> Tripwire::Arm(Milliseconds limit) {
  if (intact()) co_return;
  wire_.reset();
  auto wire = std::make_shared<Wire>(loop_.get_executor());
  const std::string what = fmt::format("connect to {}", origin_.Authority());
  const boost::system::error_code error =
      co_await Within(limit, Connect(wire->socket, origin_), what);
  if (error) Throw(ErrorCode::kUnavailable, "{}: {}", what, error.message());
  wire_ = wire;
  // The wire is the handler's only as long as it is this object's: its end takes the socket along.
  wire->socket.async_wait(Socket::wait_read,
                          [this, weak = std::weak_ptr(wire)](boost::system::error_code ended) {
                            if (ended || weak.expired() || weak.lock() != wire_) return;
                            if (on_cut_) on_cut_();
                          });
}

bool Tripwire::intact() const { return wire_ && wire_->intact(); }

}  // namespace isthmus::net
