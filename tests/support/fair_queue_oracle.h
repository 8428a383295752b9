// docs/gateway.md, "Room", once more: plain lists that are gone through from the beginning.
#ifndef ISTHMUS_TESTS_SUPPORT_FAIR_QUEUE_ORACLE_H_
#define ISTHMUS_TESTS_SUPPORT_FAIR_QUEUE_ORACLE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/gateway/fair_queue.h"

namespace isthmus::testing {

class FairQueueOracle {
 public:
  // `interval`: between two requests of a client; 0: no rate.
  FairQueueOracle(gateway::RoomLimits limits, std::chrono::nanoseconds interval)
      : limits_(limits), interval_(interval) {}

  gateway::FairQueue::Arrival Arrive(const std::string& client, gateway::Priority priority,
                                     MonotonicTime now) {
    Refill(now);
    const size_t waiting = queued(), own = WaitingOf(client, priority);
    const bool place = waiting < limits_.queued && own / 8 < limits_.queued - waiting;
    requests_.push_back({++last_, client, priority, false});
    if (own == 0) turns_[{client, priority}] = ++clock_;
    const Request* first = First();
    if (first != nullptr && first->id == last_) {
      Admit(last_);
      return {gateway::Entry::kIn, last_};
    }
    if (place) return {gateway::Entry::kQueued, last_};
    requests_.pop_back();
    return {gateway::Entry::kShed, 0};
  }

  bool Withdraw(gateway::TicketId id) { return Remove(id, false); }
  void Leave(gateway::TicketId id) { Remove(id, true); }

  std::vector<gateway::TicketId> Next(MonotonicTime now) {
    Refill(now);
    std::vector<gateway::TicketId> admitted;
    while (const Request* first = First()) {
      admitted.push_back(first->id);
      Admit(first->id);
    }
    return admitted;
  }

  // When time alone lets somebody in, if there is room; as of the last call with a time.
  std::optional<MonotonicTime> NextInstant() const {
    std::optional<MonotonicTime> next;
    for (const Request& request : requests_) {
      if (request.in_flight || Busy(request.client)) continue;
      const MonotonicTime when = now_ + (interval_ - CreditOf(request.client));
      if (!next || when < *next) next = when;
    }
    return next;
  }

  size_t queued() const { return requests_.size() - in_flight(); }
  size_t in_flight() const {
    return static_cast<size_t>(std::count_if(requests_.begin(), requests_.end(),
                                             [](const Request& one) { return one.in_flight; }));
  }
  std::vector<gateway::TicketId> Tickets(bool in_flight) const {
    std::vector<gateway::TicketId> ids;
    for (const Request& request : requests_) {
      if (request.in_flight == in_flight) ids.push_back(request.id);
    }
    return ids;
  }

 private:
  struct Request {
    gateway::TicketId id;
    std::string client;
    gateway::Priority priority;
    bool in_flight;
  };

  size_t WaitingOf(const std::string& client, gateway::Priority priority) const {
    return static_cast<size_t>(
        std::count_if(requests_.begin(), requests_.end(), [&](const Request& one) {
          return !one.in_flight && one.client == client && one.priority == priority;
        }));
  }

  size_t InFlight(gateway::Priority priority) const {
    return static_cast<size_t>(std::count_if(
        requests_.begin(), requests_.end(),
        [&](const Request& one) { return one.in_flight && one.priority == priority; }));
  }

  bool Busy(const std::string& client) const {
    const auto in_flight =
        std::count_if(requests_.begin(), requests_.end(),
                      [&](const Request& one) { return one.in_flight && one.client == client; });
    return limits_.client_in_flight > 0 &&
           static_cast<size_t>(in_flight) >= limits_.client_in_flight;
  }

  // A bucket holds time; a request costs one interval of it.
  std::chrono::nanoseconds Capacity() const {
    return std::max<std::chrono::nanoseconds>(interval_, std::chrono::seconds(1));
  }
  std::chrono::nanoseconds CreditOf(const std::string& client) const {
    const auto found = credit_.find(client);
    return found == credit_.end() ? Capacity() : found->second;
  }
  void Refill(MonotonicTime now) {
    for (auto& [client, credit] : credit_) credit = std::min(Capacity(), credit + (now - now_));
    now_ = now;
  }

  const Request* First(gateway::Priority priority) const {
    const Request* first = nullptr;
    for (const Request& request : requests_) {
      if (request.in_flight || request.priority != priority || Busy(request.client) ||
          CreditOf(request.client) < interval_) {
        continue;
      }
      if (first == nullptr || Turn(request) < Turn(*first)) first = &request;
    }
    return first;
  }

  uint64_t Turn(const Request& request) const {
    return turns_.at({request.client, request.priority});
  }

  const Request* First() const {
    if (in_flight() >= limits_.in_flight) return nullptr;
    const Request* training = First(gateway::Priority::kTraining);
    const Request* evaluation = First(gateway::Priority::kEvaluation);
    if (training == nullptr) return evaluation;
    if (evaluation == nullptr) return training;
    const size_t quarter = std::max<size_t>(1, limits_.in_flight / 4);
    if (InFlight(gateway::Priority::kEvaluation) >= quarter || history_.size() < 4) return training;
    return std::count(history_.end() - 4, history_.end(), gateway::Priority::kTraining) == 4
               ? evaluation
               : training;
  }

  void Admit(gateway::TicketId id) {
    Request& request = *std::find_if(requests_.begin(), requests_.end(),
                                     [&](const Request& one) { return one.id == id; });
    request.in_flight = true;
    history_.push_back(request.priority);
    turns_[{request.client, request.priority}] = ++clock_;
    credit_[request.client] = CreditOf(request.client) - interval_;
  }

  bool Remove(gateway::TicketId id, bool in_flight) {
    return std::erase_if(requests_, [&](const Request& one) {
             return one.id == id && one.in_flight == in_flight;
           }) > 0;
  }

  const gateway::RoomLimits limits_;
  const std::chrono::nanoseconds interval_;
  std::vector<Request> requests_;  // in the order of their arrival
  std::map<std::pair<std::string, gateway::Priority>, uint64_t> turns_;
  std::map<std::string, std::chrono::nanoseconds> credit_;
  std::vector<gateway::Priority> history_;
  MonotonicTime now_{};
  uint64_t clock_ = 0;
  gateway::TicketId last_ = 0;
};

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_FAIR_QUEUE_ORACLE_H_
