#include "isthmus/gateway/fair_queue.h"

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <unordered_map>
#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::gateway {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kPriorities = 2;
constexpr size_t kTurnsBetween = 4;     // of training, between two of evaluation
constexpr size_t kEvaluationShare = 4;  // a quarter of the room
constexpr size_t kQueueAlpha = 8;       // docs/gateway.md, "Room"
constexpr size_t kMaxIdle = 100'000;    // clients that are remembered for their rate alone
constexpr nanoseconds kLongest = std::chrono::hours(24 * 365);

// The time between two requests at a rate.
nanoseconds IntervalOf(double rate) {
  if (rate <= 0) return nanoseconds(0);
  const double longest = static_cast<double>(kLongest.count());
  return nanoseconds(static_cast<int64_t>(std::clamp(1e9 / rate, 1.0, longest)));
}

struct Client;

// What one client has waiting at one priority, in order. Its place in line is that of its last
// turn, or of when it began to wait.
struct Flow {
  Client* client = nullptr;
  size_t priority = 0;
  std::list<TicketId> waiting;
  uint64_t place = 0;
  bool ready = false;  // it stands in line; else a limit of its client holds it back
};

struct Client {
  uint64_t number = 0;
  const std::string* name = nullptr;
  size_t in_flight = 0;
  MonotonicTime full_at = MonotonicTime::min();  // when its bucket of tokens is full again
  std::array<Flow, kPriorities> flows;

  bool Waits() const { return !flows[0].waiting.empty() || !flows[1].waiting.empty(); }
};

struct Ticket {
  Flow* flow = nullptr;
  bool in_flight = false;
  std::list<TicketId>::iterator place;  // while it waits
};

// In the order of when their buckets are full.
using ByInstant = std::map<std::pair<MonotonicTime, uint64_t>, Client*>;

}  // namespace

struct FairQueue::State {
  explicit State(RoomLimits given)
      : limits(given),
        interval(IntervalOf(given.client_rate)),
        slack(std::max(nanoseconds(0), nanoseconds(std::chrono::seconds(1)) - interval)) {}

  Client& ClientOf(const std::string& name) {
    const auto [found, added] = clients.try_emplace(name);
    Client& client = found->second;
    idle.erase({client.full_at, client.number});
    if (!added) return client;
    client.number = ++last_client;
    client.name = &found->first;
    for (size_t i = 0; i < kPriorities; ++i) {
      client.flows[i].client = &client;
      client.flows[i].priority = i;
    }
    return client;
  }

  // Dynamic thresholds: who has much in the queue leaves places to others.
  bool MayQueue(const Flow& flow) const {
    const size_t free = limits.queued - std::min(limits.queued, queued);
    return free > 0 && flow.waiting.size() / kQueueAlpha < free;
  }

  void Enter(Flow& flow, TicketId id) {
    const auto place = flow.waiting.insert(flow.waiting.end(), id);
    tickets[id] = {&flow, false, place};
    ++queued;
    if (flow.waiting.size() > 1) return;
    flow.place = ++last_place;
    Ready(flow);
  }

  void TakeOut(Flow& flow, Ticket& ticket) {
    flow.waiting.erase(ticket.place);
    --queued;
    if (!flow.waiting.empty()) return;
    HoldBack(flow);
    if (!flow.client->Waits()) paused.erase({flow.client->full_at, flow.client->number});
  }

  void Ready(Flow& flow) {
    if (flow.ready || flow.waiting.empty()) return;
    flow.ready = true;
    line[flow.priority][flow.place] = &flow;
  }

  void HoldBack(Flow& flow) {
    if (!flow.ready) return;
    flow.ready = false;
    line[flow.priority].erase(flow.place);
  }

  // The generic cell rate algorithm: a token bucket that is one instant.
  bool HasToken(const Client& client, MonotonicTime now) const {
    return interval.count() == 0 || client.full_at <= now + slack;
  }

  // Whose turn it is at this priority. Those that may not go are taken out of the line until their
  // client's limits let them: Leave and Wake bring them back to their place.
  Flow* First(size_t priority, MonotonicTime now) {
    while (!line[priority].empty()) {
      Flow& flow = *line[priority].begin()->second;
      Client& client = *flow.client;
      const bool busy = limits.client_in_flight > 0 && client.in_flight >= limits.client_in_flight;
      if (!busy && HasToken(client, now)) return &flow;
      HoldBack(flow);
      if (!busy) paused[{client.full_at, client.number}] = &client;
    }
    return nullptr;
  }

  Flow* Select(MonotonicTime now) {
    if (in_flight >= limits.in_flight) return nullptr;
    Flow* const training = First(static_cast<size_t>(Priority::kTraining), now);
    Flow* const evaluation = First(static_cast<size_t>(Priority::kEvaluation), now);
    if (training == nullptr || evaluation == nullptr) return training ? training : evaluation;
    const bool its_turn = turns_of_training >= kTurnsBetween;
    const bool has_room = evaluating < std::max<size_t>(1, limits.in_flight / kEvaluationShare);
    return its_turn && has_room ? evaluation : training;
  }

  // The first of the flow goes in.
  TicketId Admit(Flow& flow, MonotonicTime now) {
    const TicketId id = flow.waiting.front();
    Ticket& ticket = tickets.at(id);
    HoldBack(flow);
    TakeOut(flow, ticket);
    flow.place = ++last_place;
    Ready(flow);
    ticket.in_flight = true;
    Client& client = *flow.client;
    ++client.in_flight;
    if (interval.count() > 0) client.full_at = std::max(client.full_at, now) + interval;
    Count(flow.priority, 1);
    const bool evaluates = flow.priority == static_cast<size_t>(Priority::kEvaluation);
    turns_of_training = evaluates ? 0 : std::min(turns_of_training + 1, kTurnsBetween);
    return id;
  }

  void Count(size_t priority, int change) {
    in_flight += static_cast<size_t>(change);
    if (priority == static_cast<size_t>(Priority::kEvaluation)) {
      evaluating += static_cast<size_t>(change);
    }
  }

  // Those whose rate lets them again stand in line; those that need not be remembered are
  // forgotten. True if somebody came back.
  bool Wake(MonotonicTime now) {
    bool woken = false;
    while (!paused.empty() && paused.begin()->first.first <= now + slack) {
      Client* const client = paused.begin()->second;
      paused.erase(paused.begin());
      for (Flow& flow : client->flows) Ready(flow);
      woken = true;
    }
    while (!idle.empty() && (idle.begin()->first.first <= now || idle.size() > kMaxIdle)) {
      Client* const client = idle.begin()->second;
      idle.erase(idle.begin());
      clients.erase(*client->name);
    }
    return woken;
  }

  void MaybeForget(Client& client) {
    if (client.in_flight > 0 || client.Waits()) return;
    if (client.full_at == MonotonicTime::min()) {
      clients.erase(*client.name);
    } else {
      idle[{client.full_at, client.number}] = &client;
    }
  }

  RoomLimits limits;
  const nanoseconds interval;  // 0: no rate
  const nanoseconds slack;     // how far a bucket may be from full and still have a token
  std::map<std::string, Client> clients;
  std::unordered_map<TicketId, Ticket> tickets;
  std::array<std::map<uint64_t, Flow*>, kPriorities> line;
  ByInstant paused;  // have something waiting and no token
  ByInstant idle;    // are remembered for their rate alone
  uint64_t last_client = 0, last_place = 0;
  TicketId last_ticket = 0;
  size_t queued = 0, in_flight = 0, evaluating = 0;
  size_t turns_of_training = 0;
  uint64_t shed = 0;
  std::optional<MonotonicTime> due;  // somebody may go in, whom Next has not named yet
};

FairQueue::FairQueue(RoomLimits limits) : state_(std::make_unique<State>(limits)) {}
FairQueue::~FairQueue() = default;

FairQueue::Arrival FairQueue::Arrive(const std::string& name, Priority priority,
                                     MonotonicTime now) {
  State& state = *state_;
  if (state.Wake(now)) state.due = now;
  Client& client = state.ClientOf(name);
  Flow& flow = client.flows[static_cast<size_t>(priority)];
  const bool may_queue = state.MayQueue(flow);
  const TicketId id = ++state.last_ticket;
  state.Enter(flow, id);
  Flow* const first = state.Select(now);
  if (first == &flow && flow.waiting.front() == id) {
    state.Admit(flow, now);
    return {Entry::kIn, id};
  }
  if (first != nullptr) state.due = now;
  if (may_queue) return {Entry::kQueued, id};
  Withdraw(id);
  ++state.shed;
  return {Entry::kShed, 0};
}

bool FairQueue::Withdraw(TicketId id) {
  const auto found = state_->tickets.find(id);
  if (found == state_->tickets.end() || found->second.in_flight) return false;
  Flow& flow = *found->second.flow;
  state_->TakeOut(flow, found->second);
  state_->tickets.erase(found);
  state_->MaybeForget(*flow.client);
  return true;
}

void FairQueue::Leave(TicketId id) {
  const auto found = state_->tickets.find(id);
  if (found == state_->tickets.end() || !found->second.in_flight) {
    Throw(ErrorCode::kInternal, "cannot let request {} leave: it is not in flight", id);
  }
  Flow& flow = *found->second.flow;
  Client& client = *flow.client;
  state_->Count(flow.priority, -1);
  --client.in_flight;
  state_->tickets.erase(found);
  if (!state_->paused.contains({client.full_at, client.number})) {
    for (Flow& held : client.flows) state_->Ready(held);
  }
  state_->MaybeForget(client);
}

std::vector<TicketId> FairQueue::Next(MonotonicTime now) {
  state_->Wake(now);
  state_->due.reset();
  std::vector<TicketId> admitted;
  while (Flow* const flow = state_->Select(now)) admitted.push_back(state_->Admit(*flow, now));
  return admitted;
}

std::optional<MonotonicTime> FairQueue::next_instant() const {
  if (state_->due) return state_->due;
  if (state_->paused.empty()) return std::nullopt;
  return state_->paused.begin()->first.first - state_->slack;
}

void FairQueue::set_in_flight_limit(size_t limit) { state_->limits.in_flight = limit; }

size_t FairQueue::in_flight() const { return state_->in_flight; }
size_t FairQueue::queued() const { return state_->queued; }
uint64_t FairQueue::shed() const { return state_->shed; }
size_t FairQueue::clients() const { return state_->clients.size(); }

}  // namespace isthmus::gateway
