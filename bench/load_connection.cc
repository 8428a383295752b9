#include "bench/load_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "isthmus/base/bytes.h"
#include "isthmus/base/error.h"

namespace isthmus::bench {
namespace {

constexpr size_t kBufferBytes = size_t{16} << 10;        // of many connections, each
constexpr size_t kLargeBufferBytes = size_t{256} << 10;  // once a read has filled it
constexpr int kEventsAtOnce = 256;

void Check(bool good, std::string_view action) {
  if (!good) Throw(ErrorCode::kUnavailable, "{}: {}", action, std::strerror(errno));
}

void WaitFor(int descriptor, int16_t events) {
  pollfd one{descriptor, events, 0};
  Check(poll(&one, 1, -1) == 1, "poll");
}

}  // namespace

std::string CompletionRequest(const net::Origin& target, std::string_view body,
                              std::string_view fields) {
  return fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n{}\r\n{}",
      target.Authority(), body.size(), fields, body);
}

LoadConnection::LoadConnection(const net::Origin& target)
    : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), buffer_(kBufferBytes) {
  Check(descriptor_ >= 0, "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(target.port);
  Check(inet_pton(AF_INET, target.host.c_str(), &address.sin_addr) == 1, "read an IPv4 address");
  Check(connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
        "connect to " + target.Authority());
  const int on = 1;
  setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Check(fcntl(descriptor_, F_SETFL, O_NONBLOCK) == 0, "fcntl");
}

LoadConnection::~LoadConnection() {
  if (descriptor_ >= 0) close(descriptor_);
}

LoadConnection::LoadConnection(LoadConnection&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), buffer_(std::move(other.buffer_)) {}

void LoadConnection::Send(std::string_view request) {
  has_head_ = false;
  scanner_ = {};
  while (!request.empty()) {
    const ssize_t sent = send(descriptor_, request.data(), request.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) {
      WaitFor(descriptor_, POLLOUT);
      continue;
    }
    Check(sent > 0, "send");
    request.remove_prefix(static_cast<size_t>(sent));
  }
}

bool LoadConnection::Receive(const std::function<void(std::string_view)>& take) {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  const ssize_t got = recv(descriptor_, buffer_.data() + end_, buffer_.size() - end_, 0);
  if (got < 0 && errno == EAGAIN) return false;
  Check(got >= 0, "receive");
  if (got == 0) Throw(ErrorCode::kUnavailable, "receive: the connection ended");
  end_ += static_cast<size_t>(got);
  if (end_ == buffer_.size() && buffer_.size() < kLargeBufferBytes) {
    buffer_.resize(kLargeBufferBytes);
  }
  if (!has_head_) TakeHead();
  while (has_head_ && !parser_.done()) {
    const auto decoded = parser_.Decode(
        MutableByteSpan(reinterpret_cast<std::byte*>(buffer_.data()) + begin_, end_ - begin_));
    begin_ += decoded.consumed;
    if (!decoded.body.empty()) take(decoded.body);
    if (decoded.body.empty() && !parser_.done()) break;
  }
  return has_head_ && parser_.done();
}

std::string LoadConnection::ReceiveAll() {
  std::string body;
  while (!Receive([&body](std::string_view piece) { body.append(piece); })) {
    WaitFor(descriptor_, POLLIN);
  }
  return body;
}

void LoadConnection::TakeHead() {
  const std::string_view unread(buffer_.data() + begin_, end_ - begin_);
  const size_t size = scanner_.Scan(unread);
  if (size == 0) return;
  parser_.ParseResponse(unread.substr(0, size), false, &head_);
  begin_ += size;
  has_head_ = true;
  if (head_.status != kGood) {
    Throw(ErrorCode::kUnavailable, "the answer has status {}: {}", head_.status,
          unread.substr(size));
  }
}

LoadPoller::LoadPoller() : descriptor_(epoll_create1(EPOLL_CLOEXEC)) {
  Check(descriptor_ >= 0, "epoll_create1");
}

LoadPoller::~LoadPoller() { close(descriptor_); }

void LoadPoller::Add(const LoadConnection& connection, uint32_t index) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = index;
  Check(epoll_ctl(descriptor_, EPOLL_CTL_ADD, connection.descriptor(), &event) == 0, "epoll_ctl");
}

std::span<const uint32_t> LoadPoller::Wait(std::chrono::microseconds limit) {
  std::array<epoll_event, kEventsAtOnce> events;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec until{seconds.count(), std::chrono::nanoseconds(limit - seconds).count()};
  const int count = epoll_pwait2(descriptor_, events.data(), kEventsAtOnce, &until, nullptr);
  Check(count >= 0, "epoll_pwait2");
  ready_.clear();
  for (int i = 0; i < count; ++i) ready_.push_back(events[static_cast<size_t>(i)].data.u32);
  return ready_;
}

}  // namespace isthmus::bench
