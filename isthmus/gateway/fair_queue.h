// Who is let in next: bounds on requests in flight, clients that take turns, priorities, shedding.
// Rules: docs/gateway.md, "Room". Pure: no I/O, no clock, no callback. Not thread-safe.
#ifndef ISTHMUS_GATEWAY_FAIR_QUEUE_H_
#define ISTHMUS_GATEWAY_FAIR_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/lane/request.h"

namespace isthmus::gateway {

using lane::Priority;

struct RoomLimits {
  size_t in_flight = 10'000;    // at all
  size_t queued = 10'000;       // at all; beyond, requests are shed
  size_t client_in_flight = 0;  // of one client; 0: no limit
  double client_rate = 0;  // requests a second of one client, with a burst of one second's; 0: none
};

// Given out from 1, never twice.
using TicketId = uint64_t;

enum class Entry {
  kIn,      // it is in flight until Leave
  kQueued,  // Next will name it, unless it is withdrawn
  kShed,    // 429: there is no place in the queue, or none left for this client
};

class FairQueue {
 public:
  struct Arrival {
    Entry entry = Entry::kShed;
    TicketId ticket = 0;  // kIn, kQueued
  };

  explicit FairQueue(RoomLimits limits);
  ~FairQueue();
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  // A new request. In at once only if nobody whom its client's turn, its priority and the limits
  // put before it waits, whether or not Next has been called for them. `name`, its client, is kept
  // while it has requests here or a rate to remember.
  Arrival Arrive(const std::string& name, Priority priority, MonotonicTime now);
  // A queued request's client is gone. False, and no change, if it is not queued.
  bool Withdraw(TicketId id);
  // A request in flight has ended. kInternal if it is not in flight.
  void Leave(TicketId id);
  // Requests that may go in now, in their order; they are in flight from here on. Call it after
  // Leave, and no later than next_instant().
  std::vector<TicketId> Next(MonotonicTime now);
  // How many may be in flight at all, from now on; those above stay. Call Next after it grew.
  void set_in_flight_limit(size_t limit);
  // When a client's rate lets another of its queued requests in, if there is room; an instant that
  // is over, if Next has somebody to name already. nullopt: none waits for that. It changes with
  // every call.
  std::optional<MonotonicTime> next_instant() const;

  size_t in_flight() const;
  size_t queued() const;
  uint64_t shed() const;   // so far
  size_t clients() const;  // that are remembered

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_FAIR_QUEUE_H_
