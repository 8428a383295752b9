// Connections of a load generator: plain sockets and epoll, so that it takes as little as possible
// of the machine that it shares with what is measured.
#ifndef BENCH_LOAD_CONNECTION_H_
#define BENCH_LOAD_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/net/http.h"
#include "isthmus/net/parser.h"

namespace isthmus::bench {

// POST /v1/completions; `fields` are further lines of the head, each with its line end.
std::string CompletionRequest(const net::Origin& target, std::string_view body,
                              std::string_view fields = {});

// A keep-alive connection with one request at a time. All failures, and answers other than 200,
// are kUnavailable. Movable only before the first use.
class LoadConnection {
 public:
  // Connects. The host must be an IPv4 address.
  explicit LoadConnection(const net::Origin& target);
  ~LoadConnection();
  LoadConnection(LoadConnection&& other) noexcept;
  LoadConnection& operator=(LoadConnection&&) = delete;

  int descriptor() const { return descriptor_; }
  // Whether an answer to the last request has begun to come, and is a good one so far.
  bool began() const { return has_head_ && head_.status == kGood; }

  // Begins an exchange. Waits if the kernel has no room.
  void Send(std::string_view request);
  // Takes what has arrived, without waiting, and hands out the pieces of the body. Whether the
  // answer is whole.
  bool Receive(const std::function<void(std::string_view)>& take);
  // The same, waiting for the end; the whole body.
  std::string ReceiveAll();

 private:
  static constexpr int kGood = 200;

  void TakeHead();

  int descriptor_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  bool has_head_ = false;
  net::HeadScanner scanner_;
  net::MessageParser parser_;
  net::ResponseHead head_;
};

// Which of some connections have something to receive.
class LoadPoller {
 public:
  LoadPoller();
  ~LoadPoller();
  LoadPoller(const LoadPoller&) = delete;
  LoadPoller& operator=(const LoadPoller&) = delete;

  void Add(const LoadConnection& connection, uint32_t index) const;
  // Indices; none if nothing came in time.
  std::span<const uint32_t> Wait(std::chrono::microseconds limit);

 private:
  int descriptor_;
  std::vector<uint32_t> ready_;
};

}  // namespace isthmus::bench

#endif  // BENCH_LOAD_CONNECTION_H_
