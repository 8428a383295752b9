#include "isthmus/gateway/entrance.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>

namespace isthmus::gateway {

using net::Task;
namespace asio = net::asio;

Entrance::Entrance(net::Loop& loop, RoomLimits limits)
    : queue_(limits), timer_(loop.get_executor()) {}

Entrance::Arrival Entrance::Arrive(const std::string& client, Priority priority) {
  const FairQueue::Arrival arrival = queue_.Arrive(client, priority, MonotonicNow());
  if (arrival.entry == Entry::kQueued) {
    waiters_.emplace(arrival.ticket, Waiter{});
    Schedule();
  }
  return {arrival.entry, Pass(arrival.entry == Entry::kShed ? nullptr : this, arrival.ticket)};
}

Task<bool> Entrance::LetIn(const Pass& pass, net::Milliseconds limit) {
  const auto executor = co_await asio::this_coro::executor;
  Waiter& waiter = waiters_.at(pass.ticket_);  // stays until the pass ends
  if (waiter.in) co_return true;
  net::SteadyTimer timer(executor, limit);
  const struct Listed {
    Listed(Waiter& w, net::SteadyTimer& t) : waiter(w) { waiter.timer = &t; }
    ~Listed() { waiter.timer = nullptr; }
    Waiter& waiter;
  } listed(waiter, timer);
  boost::system::error_code told;
  co_await timer.async_wait(asio::redirect_error(net::kAwait, told));
  const auto state = co_await asio::this_coro::cancellation_state;
  if (state.cancelled() != asio::cancellation_type::none) {
    throw boost::system::system_error(asio::error::operation_aborted);
  }
  co_return waiter.in;
}

void Entrance::set_in_flight_limit(size_t limit) {
  queue_.set_in_flight_limit(limit);
  if (queue_.queued() > 0) Admit();
}

void Entrance::End(TicketId ticket) {
  const auto found = waiters_.find(ticket);
  const bool queued = found != waiters_.end() && !found->second.in;
  if (found != waiters_.end()) waiters_.erase(found);
  if (queued) {
    queue_.Withdraw(ticket);
  } else {
    queue_.Leave(ticket);
  }
  if (queue_.queued() > 0) Admit();
}

// Those who are let in go on later, through the loop: nothing of theirs happens inside the call.
void Entrance::Admit() {
  for (const TicketId ticket : queue_.Next(MonotonicNow())) {
    Waiter& waiter = waiters_.at(ticket);
    waiter.in = true;
    if (waiter.timer != nullptr) waiter.timer->cancel();
  }
  Schedule();
}

void Entrance::Schedule() {
  const auto next = queue_.next_instant();
  if (!next) return;
  timer_.expires_at(*next);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Admit();
  });
}

}  // namespace isthmus::gateway
