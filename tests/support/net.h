// A loop on a thread of its own, and servers on it.
#ifndef ISTHMUS_TESTS_SUPPORT_NET_H_
#define ISTHMUS_TESTS_SUPPORT_NET_H_

#include <gtest/gtest.h>

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
#include "tests/support/sockets.h"

namespace isthmus::testing {

namespace asio = boost::asio;

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
