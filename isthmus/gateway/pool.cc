#include "isthmus/gateway/pool.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/gateway/pool_state.h"

namespace isthmus::gateway {
namespace {

// An island that is believed keeps its id from another one: one that is elsewhere.
void CheckConflict(const Island& island, const Registration& registration) {
  if (!island.present || island.leaving || island.url == registration.url) return;
  const bool itself =
      island.source == IslandSource::kRegistered && island.instance == registration.instance;
  if (itself) return;
  Throw(ErrorCode::kConflict, "register island {} at {}: another one at {} has this id",
        registration.id, registration.url.Authority(), island.url.Authority());
}

}  // namespace

Pool::Pool(PoolOptions options) : state_(std::make_unique<State>(options)) {}
Pool::~Pool() = default;

void Pool::Register(const Registration& registration, MonotonicTime now) {
  State& state = *state_;
  const auto known = Find(registration.id);
  if (known) CheckConflict(state.islands[*known], registration);
  if (!known && registration.leaving) return;
  const uint32_t place = known ? *known : state.Place(registration.id);
  Island& island = state.islands[place];
  // What leaves is nothing new: it is the instance that is there, or nobody.
  const bool another = island.instance != registration.instance && !island.instance.empty();
  if (registration.leaving && known && (!island.present || another)) return;
  const bool listed = island.present && island.source == IslandSource::kListed;
  // The first word of a listed island's instance is no restart.
  const bool anew = !island.present || island.url != registration.url || another;
  if (anew) {
    state.Enter(place, registration.url, listed ? IslandSource::kListed : IslandSource::kRegistered,
                now);
  }
  island.instance = registration.instance;
  island.believed_until = now + registration.ttl;
  if (registration.report) island.TakeReport(*registration.report, now);
  island.leaving = registration.leaving;
  state.Refresh(place, now);
  state.Settle(now);
}

bool Pool::Remove(std::string_view id, MonotonicTime now) {
  const auto place = Find(id);
  if (!place) return false;
  const Island& island = state_->islands[*place];
  if (!island.present || island.source != IslandSource::kRegistered) return false;
  state_->Leave(*place, now);
  state_->Settle(now);
  return true;
}

std::vector<ListedIsland> Pool::SetListed(const std::vector<ListedIsland>& islands,
                                          MonotonicTime now) {
  State& state = *state_;
  std::vector<ListedIsland> others;
  std::unordered_set<std::string_view> ids;
  state.listed.clear();
  for (const ListedIsland& island : islands) {
    (ids.insert(island.id).second ? state.listed : others).push_back(island);
  }
  for (uint32_t place = 0; place < state.islands.size(); ++place) {
    const Island& island = state.islands[place];
    const bool listed = island.present && island.source == IslandSource::kListed;
    if (listed && !ids.contains(island.id)) state.Leave(place, now);
  }
  for (ListedIsland& island : state.ApplyListed(now)) others.push_back(std::move(island));
  state.Settle(now);
  return others;
}

void Pool::OnReport(uint32_t place, IslandReport report, MonotonicTime now) {
  Island& island = state_->islands.at(place);
  if (!island.present) return;
  island.OnAnswer(now);
  island.TakeReport(std::move(report), now);
  state_->Refresh(place, now);
  state_->Settle(now);
}

void Pool::OnUnreachable(uint32_t place, std::string_view why, MonotonicTime now) {
  constexpr size_t kMaxWhyBytes = 300;
  Island& island = state_->islands.at(place);
  if (!island.present) return;
  ++island.silences;
  island.refused = false;
  island.silence = why.substr(0, kMaxWhyBytes);
  const bool left = island.leaving && island.source == IslandSource::kRegistered;
  if (left) {
    state_->Leave(place, now);
  } else {
    state_->Refresh(place, now);
  }
  state_->Settle(now);
}

void Pool::OnSent(uint32_t place, MonotonicTime) {
  Island& island = state_->islands[place];
  IslandView& view = state_->snapshot.islands[place];
  ++view.in_flight;
  island.breaker.OnSent();
  view.blocked = island.breaker.blocked();
}

void Pool::OnEnded(uint32_t place, Outcome outcome, MonotonicTime now) {
  State& state = *state_;
  Island& island = state.islands.at(place);
  IslandView& view = state.snapshot.islands[place];
  if (view.in_flight == 0) {
    Throw(ErrorCode::kInternal, "end a request at island {}: none is there", island.id);
  }
  if (view.in_flight-- == view.limit) ++state.generation;
  if (outcome == Outcome::kFailed && island.inherited > 0) {
    --island.inherited;
    outcome = Outcome::kAbandoned;
  }
  island.inherited = std::min(island.inherited, view.in_flight);
  switch (outcome) {
    case Outcome::kServed:
      island.breaker.OnServed();
      break;
    case Outcome::kFailed:
      island.breaker.OnFailed(now);
      break;
    case Outcome::kBrokenPromise:
      if (!island.suspicion.Active(now)) island.suspicion.Begin(now);
      island.breaker.OnUndecided();
      break;
    case Outcome::kRefused:
      island.refused = true;
      island.breaker.OnUndecided();
      break;
    case Outcome::kAbandoned:
      island.breaker.OnUndecided();
      break;
  }
  state.Refresh(place, now);
  // Only a broken promise takes a word back, and they are few.
  state.Settle(now);
}

bool Pool::Advance(MonotonicTime now) {
  State& state = *state_;
  const uint64_t before = state.generation;
  for (uint32_t place = 0; place < state.islands.size(); ++place) {
    Island& island = state.islands[place];
    if (island.id.empty()) continue;
    const bool over = island.present && island.source == IslandSource::kRegistered &&
                      now >= island.believed_until;
    if (over) state.Leave(place, now);
    const bool old = !island.present && now - island.gone_at >= state.options.remembered;
    if (old && state.snapshot.islands[place].in_flight == 0) {
      state.Forget(place);
    } else {
      state.Refresh(place, now);
    }
  }
  state.Settle(now);
  return state.generation != before;
}

const Snapshot& Pool::snapshot() const { return state_->snapshot; }
uint64_t Pool::generation() const { return state_->generation; }
size_t Pool::size() const { return state_->islands.size(); }
const std::string& Pool::id(uint32_t place) const { return state_->islands.at(place).id; }
const net::Origin& Pool::url(uint32_t place) const { return state_->islands.at(place).url; }

std::optional<uint32_t> Pool::Find(std::string_view id) const {
  const auto found = state_->places.find(id);
  if (found == state_->places.end()) return std::nullopt;
  return found->second;
}

std::optional<uint32_t> Pool::FindRun(std::string_view run) const { return state_->runs.Find(run); }

std::vector<IslandFacts> Pool::Facts(MonotonicTime now) const {
  std::vector<IslandFacts> facts;
  facts.reserve(state_->islands.size());
  for (uint32_t place = 0; place < state_->islands.size(); ++place) {
    const Island& island = state_->islands[place];
    if (island.id.empty()) continue;
    const Cause cause = island.Judge(state_->options, now);
    const milliseconds since =
        island.reported ? std::chrono::duration_cast<milliseconds>(now - island.reported_at)
                        : milliseconds(-1);
    facts.push_back({place, island.id, island.url, island.source, StateOf(cause),
                     island.Reason(cause, now), state_->snapshot.islands[place].share,
                     island.breaker.name(), island.breaker.failures(), since, island.report});
  }
  return facts;
}

std::vector<uint32_t> Pool::DuePolls(milliseconds every, MonotonicTime now) {
  std::vector<uint32_t> due;
  for (uint32_t place = 0; place < state_->islands.size(); ++place) {
    Island& island = state_->islands[place];
    if (!island.present) continue;
    if (now < island.polled_at + island.PollInterval(state_->options, every)) continue;
    island.polled_at = now;
    due.push_back(place);
  }
  return due;
}

}  // namespace isthmus::gateway
