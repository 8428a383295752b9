#include "isthmus/gateway/pool_state.h"

#include <algorithm>

#include "isthmus/base/error.h"

namespace isthmus::gateway {
namespace {

// Where the version that an island is on its way to means something.
bool IsOnItsWay(Cause cause) {
  return cause == Cause::kGateClosed || cause == Cause::kNotReady || cause == Cause::kOnItsWay;
}

// Not in flight and share, which change all the time: what else may decide about who waits.
bool Differ(const IslandView& a, const IslandView& b) {
  return a.state != b.state || a.served != b.served || a.target != b.target || a.run != b.run ||
         a.blocked != b.blocked;
}

}  // namespace

void Pool::State::Refresh(uint32_t place, MonotonicTime now) {
  Island& island = islands[place];
  IslandView& view = snapshot.islands[place];
  const IslandView before = view;
  island.breaker.Advance(now);
  const Cause cause = island.Judge(options, now);
  view.state = StateOf(cause);
  if (island.fresh && (cause == Cause::kNone || cause == Cause::kOnItsWay)) {
    island.fresh = false;
    island.serving_since = now;
  }
  view.served = island.report->served;
  view.target = IsOnItsWay(cause) ? island.report->target : kNoVersion;
  view.blocked = island.breaker.blocked();
  view.share = island.Share(options, now);
  const uint64_t news = runs.changes();
  SetRun(place, island.IsWitness(now));
  if (Differ(before, view) || runs.changes() != news) ++generation;
}

void Pool::State::SetRun(uint32_t place, bool witness) {
  const Island& island = islands[place];
  IslandView& view = snapshot.islands[place];
  const bool has_run = island.present && island.reported;
  const bool same =
      view.run != kNoRun && has_run && snapshot.runs[view.run].name == island.report->run;
  if (!same && view.run != kNoRun) {
    runs.Witness(view.run, witnessed[place], kNoVersion);
    witnessed[place] = kNoVersion;
    runs.Leave(view.run);
    view.run = kNoRun;
  }
  if (!has_run) return;
  if (!same) view.run = runs.Join(island.report->run);
  const VersionNumber word = witness ? island.report->head : kNoVersion;
  runs.Witness(view.run, witnessed[place], word);
  witnessed[place] = word;
}

void Pool::State::Settle(MonotonicTime now) {
  if (relist) ApplyListed(now);
  if (!runs.dirty()) return;
  std::vector<VersionNumber> newest(snapshot.runs.size(), kNoVersion);
  for (size_t place = 0; place < islands.size(); ++place) {
    const uint32_t run = snapshot.islands[place].run;
    if (run != kNoRun) newest[run] = std::max(newest[run], witnessed[place]);
  }
  const uint64_t before = runs.changes();
  runs.Recount(newest);
  if (runs.changes() != before) ++generation;
}

uint32_t Pool::State::Place(const std::string& id) {
  if (places.size() >= options.max_islands && !ForgetOldest()) {
    Throw(ErrorCode::kUnavailable, "take in island {}: there are {} already, the most allowed", id,
          options.max_islands);
  }
  uint32_t place = static_cast<uint32_t>(islands.size());
  if (free.empty()) {
    islands.emplace_back();
    witnessed.push_back(kNoVersion);
    snapshot.islands.emplace_back();
  } else {
    place = free.back();
    free.pop_back();
  }
  Island& island = islands[place];
  island.id = id;
  island.report = std::make_shared<const IslandReport>();
  snapshot.islands[place].placement = PlacementOf(id);
  snapshot.islands[place].limit = options.island_in_flight;
  places.emplace(id, place);
  return place;
}

// Of those that are gone the one that has been for longest.
bool Pool::State::ForgetOldest() {
  std::optional<uint32_t> oldest;
  for (uint32_t place = 0; place < islands.size(); ++place) {
    const Island& island = islands[place];
    if (island.id.empty() || island.present || snapshot.islands[place].in_flight > 0) continue;
    if (!oldest || island.gone_at < islands[*oldest].gone_at) oldest = place;
  }
  if (oldest) Forget(*oldest);
  return oldest.has_value();
}

void Pool::State::Forget(uint32_t place) {
  places.erase(islands[place].id);
  islands[place] = Island();
  islands[place].report = std::make_shared<const IslandReport>();
  snapshot.islands[place] = IslandView();
  free.push_back(place);
}

void Pool::State::Leave(uint32_t place, MonotonicTime now) {
  islands[place].present = false;
  islands[place].gone_at = now;
  relist = listed_wait;
  Refresh(place, now);
}

void Pool::State::Enter(uint32_t place, const net::Origin& url, IslandSource source,
                        MonotonicTime now) {
  Island& island = islands[place];
  const bool known = !island.url.host.empty();  // a new place's island has no past
  if (known) island.Restart(now, snapshot.islands[place].in_flight);
  island.url = url;
  island.source = source;
  island.present = true;
  island.instance.clear();
}

std::vector<ListedIsland> Pool::State::ApplyListed(MonotonicTime now) {
  std::vector<ListedIsland> others;
  listed_wait = relist = false;
  for (const ListedIsland& island : listed) {
    if (List(island, now)) continue;
    others.push_back(island);
  }
  return others;
}

// False if it cannot count: its id is registered, or there is no place.
bool Pool::State::List(const ListedIsland& island, MonotonicTime now) {
  const auto found = places.find(island.id);
  const bool known = found != places.end();
  if (known && islands[found->second].present) {
    const Island& there = islands[found->second];
    if (there.source == IslandSource::kRegistered) {
      listed_wait = true;
      return false;
    }
    if (there.url == island.url) return true;
  }
  uint32_t place = 0;
  try {
    place = known ? found->second : Place(island.id);
  } catch (const Error&) {
    return false;
  }
  Enter(place, island.url, IslandSource::kListed, now);
  Refresh(place, now);
  return true;
}

}  // namespace isthmus::gateway
