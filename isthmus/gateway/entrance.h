// The fair queue at work: on a loop, with the machine's clock, and with coroutines that wait in it.
#ifndef ISTHMUS_GATEWAY_ENTRANCE_H_
#define ISTHMUS_GATEWAY_ENTRANCE_H_

#include <string>
#include <unordered_map>
#include <utility>

#include "isthmus/gateway/fair_queue.h"
#include "isthmus/net/within.h"

namespace isthmus::gateway {

// Used on its loop's thread only; must outlive its passes and all coroutines that wait here.
class Entrance {
 public:
  // A request's place, in the queue or in flight, until it is destroyed.
  class Pass {
   public:
    Pass(Pass&& other) noexcept
        : entrance_(std::exchange(other.entrance_, nullptr)), ticket_(other.ticket_) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (entrance_ != nullptr) entrance_->End(ticket_);
    }

   private:
    friend class Entrance;
    Pass(Entrance* entrance, TicketId ticket) : entrance_(entrance), ticket_(ticket) {}

    Entrance* entrance_;
    TicketId ticket_;
  };
  struct Arrival {
    Entry entry;
    Pass pass;  // of one that was shed: nothing
  };

  Entrance(net::Loop& loop, RoomLimits limits);
  Entrance(const Entrance&) = delete;
  Entrance& operator=(const Entrance&) = delete;

  Arrival Arrive(const std::string& client, Priority priority);
  // For one that is queued: true when it is let in, false if it was not within the limit.
  net::Task<bool> LetIn(const Pass& pass, net::Milliseconds limit);

  // How many may be in flight at all, from now on.
  void set_in_flight_limit(size_t limit);

  const FairQueue& queue() const { return queue_; }

 private:
  struct Waiter {
    net::SteadyTimer* timer = nullptr;  // null until its coroutine waits
    bool in = false;
  };

  void End(TicketId ticket);
  void Admit();
  void Schedule();

  FairQueue queue_;
  net::SteadyTimer timer_;
  std::unordered_map<TicketId, Waiter> waiters_;  // those that were queued and have not ended
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_ENTRANCE_H_
