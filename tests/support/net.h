// A loop on a thread of its own, and plain blocking sockets that write and read what a test says.
#ifndef ISTHMUS_TESTS_SUPPORT_NET_H_
#define ISTHMUS_TESTS_SUPPORT_NET_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>

#include "isthmus/net/client.h"
#include "isthmus/net/server.h"

namespace isthmus::testing {

namespace asio = boost::asio;

// Nothing in a test waits for longer: what hangs fails.
inline constexpr int kPatienceSeconds = 20;

// What a coroutine on another thread gave. Errors cross by value: the C++ runtime counts references
// to exceptions where ThreadSanitizer cannot see it.
template <typename T>
class Pending {
 public:
  struct Outcome {
    std::optional<std::conditional_t<std::is_void_v<T>, std::monostate, T>> value;
    ErrorCode code = ErrorCode::kInternal;
    std::string message;
  };

  explicit Pending(std::future<Outcome> future) : future_(std::move(future)) {}

  T get() {
    if (future_.wait_for(std::chrono::seconds(kPatienceSeconds)) != std::future_status::ready) {
      throw std::runtime_error("a coroutine hangs");
    }
    Outcome outcome = future_.get();
    if (!outcome.value) throw Error(outcome.code, outcome.message);
    if constexpr (!std::is_void_v<T>) return std::move(*outcome.value);
  }

 private:
  std::future<Outcome> future_;
};

class LoopThread {
 public:
  LoopThread() : work_(loop_.get_executor()), thread_([this] { loop_.run(); }) {}
  ~LoopThread() {
    work_.reset();
    loop_.stop();
    thread_.join();
  }

  net::Loop& loop() { return loop_; }

  // Runs `action` on the loop's thread; its result.
  template <typename Action>
  auto Do(Action action) {
    std::packaged_task<decltype(action())()> task(std::move(action));
    auto result = task.get_future();
    asio::post(loop_, [&task] { task(); });
    return result.get();
  }
  // Starts a coroutine there.
  template <typename Coroutine>
  auto Spawn(Coroutine coroutine) {
    using T = typename std::invoke_result_t<Coroutine>::value_type;
    return Pending<T>(asio::co_spawn(
        loop_.get_executor(), Guarded<T, Coroutine>(std::move(coroutine)), asio::use_future));
  }
  // Starts it and waits for its result.
  template <typename Coroutine>
  auto Run(Coroutine coroutine) {
    return Spawn(std::move(coroutine)).get();
  }
  // Waits until `condition`, asked on the loop's thread, holds; false if it never does.
  template <typename Condition>
  bool Eventually(Condition condition) {
    for (int i = 0; i < kPatienceSeconds * 1000; ++i) {
      if (Do(condition)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

 private:
  template <typename T, typename Coroutine>
  static net::Task<typename Pending<T>::Outcome> Guarded(Coroutine coroutine) {
    typename Pending<T>::Outcome outcome;
    try {
      if constexpr (std::is_void_v<T>) {
        co_await coroutine();
        outcome.value.emplace();
      } else {
        outcome.value.emplace(co_await coroutine());
      }
    } catch (const Error& error) {
      outcome.code = error.code();
      outcome.message = error.what();
    } catch (const std::exception& error) {
      outcome.message = error.what();
    }
    co_return outcome;
  }

  net::Loop loop_{1};
  asio::executor_work_guard<net::Executor> work_;
  std::thread thread_;
};

class RawSocket {
 public:
  // Connects to 127.0.0.1. `receive_bytes`: a small receive buffer, for readers that are slow.
  explicit RawSocket(uint16_t port, int receive_bytes = 0) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0) Set(SO_RCVBUF, receive_bytes);
    SetPatience();
    sockaddr_in to = Loopback(port);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  static RawSocket Adopt(int fd) { return RawSocket(fd, Adopted{}); }
  RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawSocket& operator=(RawSocket&&) = delete;
  ~RawSocket() { Close(); }

  // False if the peer is gone.
  bool Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // What is there, at least a byte; empty at the end, or when it was reset or nothing came.
  std::string Receive(size_t most = 65536) {
    std::string bytes(most, '\0');
    const ssize_t got = recv(fd_, bytes.data(), most, 0);
    reset_ = got < 0;
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }
  // All until the text has come (or the end), the text included.
  std::string ReceiveUntil(std::string_view text) {
    std::string all;
    while (all.find(text) == all.npos) {
      const std::string more = Receive(1);
      if (more.empty()) break;
      all += more;
    }
    return all;
  }
  std::string ReceiveAll() {
    std::string all;
    for (std::string more = Receive(); !more.empty(); more = Receive()) all += more;
    return all;
  }
  bool was_reset() const { return reset_; }
  void EndSending() const { shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  void Reset() {
    const linger now = {1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    Close();
  }

 private:
  friend class RawListener;
  struct Adopted {};
  RawSocket(int fd, Adopted) : fd_(fd) { SetPatience(); }

  static sockaddr_in Loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  void Set(int option, int value) const {
    setsockopt(fd_, SOL_SOCKET, option, &value, sizeof value);
  }
  // Bounds all waiting, and sends at once what a test sends in pieces.
  void SetPatience() const {
    const int yes = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const timeval patience = {kPatienceSeconds, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }

  int fd_;
  bool reset_ = false;
};

// A server that does what the test does.
class RawListener {
 public:
  RawListener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = RawSocket::Loopback(0);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    socklen_t size = sizeof at;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
  }
  ~RawListener() { close(fd_); }
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;

  // A connection that was made, or will be.
  RawSocket Accept() const { return RawSocket::Adopt(accept(fd_, nullptr, nullptr)); }
  net::Origin origin() const { return {false, "127.0.0.1", port_}; }

 private:
  int fd_;
  uint16_t port_ = 0;
};

// A server on a loop of its own.
class TestServer {
 public:
  explicit TestServer(net::Handler handler, net::ServerOptions options = {}) {
    loop_.Do([&] { server_.emplace(loop_.loop(), std::move(options), std::move(handler)); });
  }
  ~TestServer() {
    loop_.Do([&] { server_.reset(); });
  }
  uint16_t port() const { return server_->port(); }
  net::Origin origin() const { return {false, "127.0.0.1", port()}; }
  LoopThread& loop() { return loop_; }
  net::Server& server() { return *server_; }
  net::ServerCounters counters() {
    return loop_.Do([&] { return server_->counters(); });
  }
  // Sends the bytes and gives all that comes until the server closes.
  std::string Ask(std::string_view bytes) const {
    RawSocket client(port());
    client.Send(bytes);
    return client.ReceiveAll();
  }

 private:
  LoopThread loop_;
  std::optional<net::Server> server_;
};

// Waits, on the loop, for so long; cancellable.
inline net::Task<void> Pause(std::chrono::milliseconds time) {
  using Steady = std::chrono::steady_clock;
  asio::basic_waitable_timer<Steady, asio::wait_traits<Steady>, net::Executor> timer(
      co_await asio::this_coro::executor, time);
  co_await timer.async_wait(net::kAwait);
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_NET_H_
