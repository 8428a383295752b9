// Plain blocking sockets that write and read what a test says.
#ifndef ISTHMUS_TESTS_SUPPORT_SOCKETS_H_
#define ISTHMUS_TESTS_SUPPORT_SOCKETS_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace isthmus::testing {

// Nothing in a test waits for longer: what hangs fails.
inline constexpr int kPatienceSeconds = 60;

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

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_SOCKETS_H_
