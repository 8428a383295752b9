// RunStreams.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <charconv>
#include <string>

#include "bench/load_connection.h"
#include "bench/proxy_load.h"
#include "isthmus/base/error.h"

namespace isthmus::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{10};  // beyond the time between two events
constexpr std::string_view kLast = "data: [DONE]\n\n";

int64_t NowNs() { return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

// The number behind "name": in an event.
int64_t NumberIn(std::string_view event, std::string_view name) {
  const size_t at = event.find(name);
  int64_t number = -1;
  if (at != event.npos) {
    std::from_chars(event.data() + at + name.size(), event.data() + event.size(), number);
  }
  if (number < 0) Throw(ErrorCode::kCorrupt, "read event {:?}: no {}", event, name);
  return number;
}

// What came on one connection.
class Stream {
 public:
  explicit Stream(const net::Origin& target) : connection(target) {}

  // Takes the events of a piece; latencies, in microseconds, of those that came while `counted`.
  void Take(std::string_view piece, int64_t now_ns, bool counted, std::vector<double>* latencies) {
    text_.append(piece);
    size_t begin = 0;
    for (size_t end = 0; (end = text_.find("\n\n", begin)) != text_.npos; begin = end + 2) {
      const std::string_view event(text_.data() + begin, end + 2 - begin);
      if (event == kLast) continue;
      if (NumberIn(event, R"("sequence":)") != next_++) {
        Throw(ErrorCode::kCorrupt, "read event {:?}: not number {}", event, next_ - 1);
      }
      const auto latency = static_cast<double>(now_ns - NumberIn(event, R"("sent_ns":)")) / 1e3;
      if (counted) latencies->push_back(latency);
    }
    text_.erase(0, begin);
  }

  void CheckWhole(int64_t events) const {
    if (next_ == events && text_.empty()) return;
    Throw(ErrorCode::kCorrupt, "a stream has {} events of {}", next_, events);
  }

  LoadConnection connection;

 private:
  std::string text_;  // of an event that is not whole
  int64_t next_ = 0;
};

// All streams of a run.
class Field {
 public:
  Field(const net::Origin& target, const Streams& options) : target_(target), options_(options) {
    const std::string body =
        fmt::format(R"({{"prompt":"x","stream":true,"bench":{{"events":{},"interval_us":{}}}}})",
                    options.events, options.interval.count());
    request_ = CompletionRequest(target, body);
  }

  std::vector<double> Run() {
    const auto begin = Clock::now();
    while (ended_ < options_.streams) {
      while (streams_.size() < options_.streams &&
             Clock::now() >= begin + BeginOf(streams_.size())) {
        Begin();
      }
      counted_ = streams_.size() == options_.streams;
      Receive(counted_ ? kPatience + options_.interval
                       : begin + BeginOf(streams_.size()) - Clock::now());
    }
    return std::move(latencies_);
  }

 private:
  // A server does not keep a connection for long on which nothing is asked.
  void Begin() {
    streams_.push_back(std::make_unique<Stream>(target_));
    poller_.Add(streams_.back()->connection, static_cast<uint32_t>(streams_.size() - 1));
    streams_.back()->connection.Send(request_);
  }

  std::chrono::nanoseconds BeginOf(size_t stream) const {
    return std::chrono::nanoseconds(options_.ramp) * static_cast<int64_t>(stream) /
           static_cast<int64_t>(options_.streams);
  }

  void Receive(std::chrono::nanoseconds limit) {
    limit = std::max(limit, std::chrono::nanoseconds(0));
    const auto ready = poller_.Wait(std::chrono::duration_cast<std::chrono::microseconds>(limit));
    if (ready.empty() && counted_) Throw(ErrorCode::kUnavailable, "wait for events: none came");
    for (const uint32_t i : ready) {
      Stream& stream = *streams_[i];
      const bool whole = stream.connection.Receive(
          [&](std::string_view piece) { stream.Take(piece, NowNs(), counted_, &latencies_); });
      if (!whole) continue;
      stream.CheckWhole(options_.events);
      ++ended_;
    }
  }

  net::Origin target_;
  Streams options_;
  std::string request_;
  std::vector<std::unique_ptr<Stream>> streams_;
  LoadPoller poller_;
  size_t ended_ = 0;
  bool counted_ = false;
  std::vector<double> latencies_;
};

}  // namespace

boost::json::object RunStreams(const net::Origin& target, const Streams& options) {
  const std::vector<double> latencies = Field(target, options).Run();
  if (latencies.empty()) Throw(ErrorCode::kInvalid, "measure streams: too few events to count any");
  return {{"events", latencies.size()},
          {"p50_us", Quantile(latencies, 0.5)},
          {"p99_us", Quantile(latencies, 0.99)},
          {"max_us", *std::ranges::max_element(latencies)}};
}

}  // namespace isthmus::bench
