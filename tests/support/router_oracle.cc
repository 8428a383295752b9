#include "tests/support/router_oracle.h"

#include <algorithm>
#include <vector>

namespace isthmus::testing {
namespace {

using gateway::Ask;
using gateway::IslandState;
using gateway::IslandView;
using gateway::kNoVersion;
using gateway::Snapshot;
using gateway::Verdict;
using gateway::VersionNumber;

using Score = std::function<uint64_t(std::string_view, const IslandView&)>;
using Places = std::vector<uint32_t>;

bool Holds(const lane::Constraint& constraint, VersionNumber version, VersionNumber newest) {
  if (version == kNoVersion) return false;
  if (constraint.min_version && version < *constraint.min_version) return false;
  if (constraint.exact_version && version != *constraint.exact_version) return false;
  if (!constraint.max_lag_versions) return true;
  if (newest == kNoVersion) return false;
  return version >= newest || newest - version <= *constraint.max_lag_versions;
}

uint64_t Sixteenths(const IslandView& island) { return static_cast<uint64_t>(island.share * 16); }

bool HasRoom(const IslandView& island) {
  return island.in_flight == 0 ||
         uint64_t{16} * island.in_flight < island.limit * Sixteenths(island);
}

// Ceilings of whole fractions.
bool WithinBound(const IslandView& island, uint64_t requests, uint64_t shares) {
  const uint64_t above = 5 * requests * Sixteenths(island), below = 4 * shares;
  const uint64_t bound = std::max<uint64_t>(1, (above + below - 1) / below);
  return island.in_flight + uint64_t{1} <= bound;
}

uint32_t OfSession(const Ask& ask, const Snapshot& snapshot, Places places, const Score& score) {
  uint64_t requests = 1, shares = 0;
  for (const uint32_t place : places) {
    requests += snapshot.islands[place].in_flight;
    shares += Sixteenths(snapshot.islands[place]);
  }
  std::sort(places.begin(), places.end(), [&](uint32_t one, uint32_t other) {
    return score(ask.session, snapshot.islands[one]) > score(ask.session, snapshot.islands[other]);
  });
  for (const uint32_t place : places) {
    if (WithinBound(snapshot.islands[place], requests, shares)) return place;
  }
  return places.at(0);
}

std::set<uint32_t> Fewest(const Snapshot& snapshot, const Places& places) {
  std::set<std::pair<uint64_t, uint64_t>> order;
  for (const uint32_t place : places) {
    order.emplace(snapshot.islands[place].in_flight, snapshot.islands[place].placement);
  }
  std::set<uint32_t> fewest;
  for (const uint32_t place : places) {
    const IslandView& island = snapshot.islands[place];
    if (std::pair<uint64_t, uint64_t>(island.in_flight, island.placement) == *order.begin()) {
      fewest.insert(place);
    }
  }
  return fewest;
}

// Of two random ones the less loaded: any but the one that is more loaded than all others.
std::set<uint32_t> LessLoaded(const Snapshot& snapshot, const Places& places) {
  std::set<uint32_t> chosen;
  for (const uint32_t place : places) {
    const IslandView& island = snapshot.islands[place];
    const auto beats = [&](uint32_t other) {
      const IslandView& rival = snapshot.islands[other];
      return other != place && (island.in_flight + uint64_t{1}) * Sixteenths(rival) <=
                                   (rival.in_flight + uint64_t{1}) * Sixteenths(island);
    };
    if (places.size() == 1 || std::any_of(places.begin(), places.end(), beats)) {
      chosen.insert(place);
    }
  }
  return chosen;
}

Places Steady(const Snapshot& snapshot, const Places& places) {
  Places steady;
  for (const uint32_t place : places) {
    if (snapshot.islands[place].state != IslandState::kStaging) steady.push_back(place);
  }
  return steady.empty() ? places : steady;
}

bool MayComeTo(const lane::Constraint& constraint, const IslandView& island, VersionNumber newest) {
  // Some version from here on that would do, with what is known now; or nothing is known yet.
  if (constraint.max_lag_versions && newest == kNoVersion) return true;
  if (Holds(constraint, island.target, newest)) return true;
  const VersionNumber exact = constraint.exact_version.value_or(0);
  return exact == 0 || (exact >= island.served && Holds(constraint, exact, newest));
}

}  // namespace

RouterAnswer RouterOracle(const Ask& ask, const Snapshot& snapshot, const Score& score) {
  const lane::Constraint constraint =
      ask.constraint != nullptr ? *ask.constraint : lane::Constraint{};
  const VersionNumber newest = snapshot.runs.at(ask.run).newest;
  Places candidates, early;
  bool full = false, early_full = false, live = false, may_come = false;
  RouterAnswer answer;
  for (uint32_t place = 0; place < snapshot.islands.size(); ++place) {
    const IslandView& island = snapshot.islands[place];
    const IslandState state = island.state;
    if (island.run != ask.run || state == IslandState::kGone || state == IslandState::kDraining) {
      continue;
    }
    may_come = may_come || MayComeTo(constraint, island, newest);
    if (island.blocked || state == IslandState::kSuspect) continue;
    live = true;
    answer.newest = std::max(answer.newest, island.served);
    if (std::count(ask.tried.begin(), ask.tried.end(), place) > 0) continue;
    if (state == IslandState::kCommitting) {
      if (!Holds(constraint, island.target, newest)) continue;
      if (HasRoom(island)) early.push_back(place);
      early_full = early_full || !HasRoom(island);
    } else if (Holds(constraint, island.served, newest)) {
      if (HasRoom(island)) candidates.push_back(place);
      full = full || !HasRoom(island);
    }
  }
  if (!candidates.empty()) {
    answer.verdict = Verdict::kSend;
    answer.alternatives = candidates.size() > 1;
    if (constraint.exact_version) candidates = Steady(snapshot, candidates);
    answer.islands = ask.session.empty() ? LessLoaded(snapshot, candidates)
                                         : std::set{OfSession(ask, snapshot, candidates, score)};
  } else if (full) {
    answer.verdict = Verdict::kQueue;
  } else if (!early.empty()) {
    answer.verdict = Verdict::kSendEarly;
    answer.islands = ask.session.empty() ? Fewest(snapshot, early)
                                         : std::set{OfSession(ask, snapshot, early, score)};
  } else if (early_full || (ask.may_wait && may_come)) {
    answer.verdict = Verdict::kWait;
  } else if (live) {
    answer.verdict = Verdict::kRefuse;
  }
  return answer;
}

}  // namespace isthmus::testing
