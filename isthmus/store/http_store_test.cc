#include "isthmus/store/http_store.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <stop_token>
#include <string_view>
#include <thread>

#include "tests/support/errors.h"

namespace isthmus::store {
namespace {

using isthmus::testing::ExpectError;

// A server of one connection on 127.0.0.1.
class OneConnection {
 public:
  OneConnection() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    EXPECT_EQ(bind(listener_, address, size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, address, &size), 0);
  }
  ~OneConnection() {
    close(connection_);
    close(listener_);
  }
  OneConnection(const OneConnection&) = delete;
  OneConnection& operator=(const OneConnection&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(ntohs(address_.sin_port)); }
  void TakeRequest() {
    connection_ = accept(listener_, nullptr, nullptr);
    char byte = 0;
    EXPECT_EQ(recv(connection_, &byte, 1, 0), 1);
  }
  void Answer(std::string_view text) const {
    EXPECT_EQ(send(connection_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

 private:
  int listener_;
  int connection_ = -1;
  sockaddr_in address_{};
};

// What is given up in these tests would go on for much longer than a test may take.
class StopTest : public ::testing::Test {
 protected:
  StoreOptions Options() const {
    StoreOptions options;
    options.deadline = options.stall = std::chrono::hours(1);
    options.stop = stop_.get_token();
    return options;
  }

  void ExpectGivenUp() {
    const auto get = [&] { store_.Get("k", 10); };
    ExpectError(ErrorCode::kUnavailable, get, "read k in", "the program ends");
    ExpectError(ErrorCode::kUnavailable, get, "the program ends");  // so does what begins later
  }

  OneConnection server_;
  std::stop_source stop_;
  HttpStore store_{server_.url(), Options()};
};

TEST_F(StopTest, EndsATransferThatGivesNothing) {
  const std::jthread server([&] {
    server_.TakeRequest();
    stop_.request_stop();
  });
  ExpectGivenUp();
}

TEST_F(StopTest, EndsTheWaitForANextTry) {
  const std::jthread server([&] {
    server_.TakeRequest();
    server_.Answer("HTTP/1.1 503 Busy\r\nRetry-After: 1800\r\nContent-Length: 0\r\n\r\n");
    stop_.request_stop();
  });
  ExpectGivenUp();
}

}  // namespace
}  // namespace isthmus::store
