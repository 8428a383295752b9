// RunPaced.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/load_connection.h"
#include "bench/proxy_load.h"
#include "isthmus/base/error.h"

namespace isthmus::bench {
namespace {

using Clock = std::chrono::steady_clock;

// For the last answers.
constexpr std::chrono::seconds kPatience{30};

std::string BodyOf(const Paced& options) {
  if (options.events > 0) {
    return fmt::format(R"({{"prompt":"x","stream":true,"bench":{{"events":{},"interval_us":{}}}}})",
                       options.events, std::chrono::microseconds(options.hold).count());
  }
  if (options.hold.count() == 0) return std::string(kSmallBody);
  return fmt::format(R"({{"prompt":"x","bench":{{"turn":0,"hold_ms":{}}}}})", options.hold.count());
}

// All requests of a run.
class Pace {
 public:
  Pace(const net::Origin& target, const Paced& options)
      : target_(target),
        options_(options),
        request_(CompletionRequest(target, BodyOf(options))),
        requests_(options.rate * static_cast<size_t>(options.time.count()) / 1000) {}

  void Run() {
    begin_ = Clock::now();
    const Clock::time_point patience = begin_ + options_.time + kPatience;
    while (begun_ < requests_ || ended_ < begun_) {
      const auto now = Clock::now();
      if (now > patience) Throw(ErrorCode::kUnavailable, "wait for answers: they did not end");
      while (begun_ < requests_ && now >= BeginOf(begun_)) Begin();
      Receive(begun_ < requests_ ? BeginOf(begun_) : patience);
    }
  }

  boost::json::object Result() const {
    if (latencies_.empty()) {
      Throw(ErrorCode::kUnavailable, "measure: no answer was whole: {}", first_failure_);
    }
    return {{"requests", requests_},
            {"whole", latencies_.size()},
            {"failed", failed_},
            {"cut_off", cut_off_},
            {"first_failure", first_failure_},
            {"p50_us", Quantile(latencies_, 0.5)},
            {"p99_us", Quantile(latencies_, 0.99)}};
  }

 private:
  // A connection, and since when its request waits. Without a connection: a place for one.
  struct Place {
    std::unique_ptr<LoadConnection> connection;
    Clock::time_point sent;
    bool busy = false;
  };

  Clock::time_point BeginOf(size_t request) const {
    return begin_ + std::chrono::nanoseconds(std::chrono::seconds(1)) *
                        static_cast<int64_t>(request) / static_cast<int64_t>(options_.rate);
  }

  void Begin() {
    ++begun_;
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(places_.size()));
      places_.emplace_back();
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    Place& place = places_[index];
    place.sent = Clock::now();
    place.busy = true;
    try {
      if (!place.connection) {
        place.connection = std::make_unique<LoadConnection>(target_);
        poller_.Add(*place.connection, index);
      }
      place.connection->Send(request_);
    } catch (const Error& error) {
      Fail(index, error);
    }
  }

  void Receive(Clock::time_point until) {
    const auto left = std::max(until - Clock::now(), Clock::duration::zero());
    for (const uint32_t i :
         poller_.Wait(std::chrono::duration_cast<std::chrono::microseconds>(left))) {
      try {
        if (places_[i].connection->Receive([](std::string_view) {})) End(i);
      } catch (const Error& error) {
        Fail(i, error);
      }
    }
  }

  void End(uint32_t index) {
    Free(index);
    latencies_.push_back(
        std::chrono::duration<double, std::micro>(Clock::now() - places_[index].sent).count());
  }

  void Fail(uint32_t index, const Error& error) {
    const std::unique_ptr<LoadConnection> connection = std::move(places_[index].connection);
    if (!places_[index].busy) return;  // the end of one that nobody used
    Free(index);
    ++(connection && connection->began() ? cut_off_ : failed_);
    if (first_failure_.empty()) first_failure_ = error.what();
  }

  void Free(uint32_t index) {
    ++ended_;
    places_[index].busy = false;
    free_.push_back(index);
  }

  net::Origin target_;
  Paced options_;
  std::string request_;
  size_t requests_;
  Clock::time_point begin_;
  LoadPoller poller_;
  std::vector<Place> places_;
  std::vector<uint32_t> free_;  // places without a request, the last used at the end
  size_t begun_ = 0, ended_ = 0, failed_ = 0, cut_off_ = 0;
  std::string first_failure_;
  std::vector<double> latencies_;
};

}  // namespace

boost::json::object RunPaced(const net::Origin& target, const Paced& options) {
  Pace pace(target, options);
  pace.Run();
  return pace.Result();
}

}  // namespace isthmus::bench
