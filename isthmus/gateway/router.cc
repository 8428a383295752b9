#include "isthmus/gateway/router.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace isthmus::gateway {
namespace {

// Conditions on islands are joined as bits: in a mixed fleet nothing predicts their branches.
unsigned Bit(bool condition) { return static_cast<unsigned>(condition); }

// An island's share as a whole number, so that sums of shares do not depend on the islands' order.
uint32_t WeightOf(const IslandView& island) {
  return std::max(1U, static_cast<uint32_t>(island.share * 65536));
}

bool HasRoom(const IslandView& island) {
  const float most = static_cast<float>(island.limit) * island.share;
  return static_cast<float>(island.in_flight) < std::max(most, 1.0F);
}

// The versions that satisfy a constraint, both ends included.
struct Versions {
  VersionNumber from = kNoVersion + 1;
  VersionNumber to = std::numeric_limits<VersionNumber>::max();

  bool empty() const { return from > to; }
  unsigned Has(VersionNumber version) const { return Bit(version >= from) & Bit(version <= to); }
};

Versions VersionsOf(const lane::Constraint& constraint, VersionNumber newest) {
  Versions versions;
  versions.from = std::max(versions.from, constraint.min_version.value_or(kNoVersion));
  if (constraint.exact_version) {
    versions.from = std::max(versions.from, *constraint.exact_version);
    versions.to = *constraint.exact_version;
  }
  if (!constraint.max_lag_versions) return versions;
  if (newest == kNoVersion) return {1, 0};
  if (newest > *constraint.max_lag_versions) {
    versions.from = std::max(versions.from, newest - *constraint.max_lag_versions);
  }
  return versions;
}

constexpr size_t kBlock = 64;

// One decision: what is asked, and the places that came into question last.
class Decision {
 public:
  Decision(const Ask& ask, const Snapshot& snapshot, uint64_t random)
      : ask_(ask), islands_(snapshot.islands), random_(random), places_(Scratch(islands_.size())) {
    if (ask.run < snapshot.runs.size()) newest_ = snapshot.runs[ask.run].newest;
    if (ask.constraint != nullptr) constraint_ = *ask.constraint;
    versions_ = VersionsOf(constraint_, newest_);
  }

  Choice Make() {
    FindServing();
    if (tally_.count == 0) return WithoutCandidate(tally_.full);
    Choice choice{.verdict = Verdict::kSend, .alternatives = tally_.count > 1};
    if (constraint_.exact_version) PreferSteady();
    choice.island = ask_.session.empty() ? LighterOfTwo() : PlaceOfSession();
    return choice;
  }

 private:
  struct Ranked {
    uint64_t score = 0;
    uint32_t place = 0;
  };

  // Of the islands that Find found.
  struct Tally {
    size_t count = 0;
    bool full = false;  // there are others that have no room
    // With a session:
    uint64_t weights = 0;
    uint64_t in_flight = 0;
    std::array<Ranked, 4> first;  // in its order; seldom are so many above the bound
  };

  static std::vector<uint32_t>& Scratch(size_t islands) {
    thread_local std::vector<uint32_t> places;
    if (places.size() < islands) places.resize(islands);
    return places;
  }

  bool WasTried(size_t place) const {
    return std::find(ask_.tried.begin(), ask_.tried.end(), place) != ask_.tried.end();
  }

  // Into places_: the islands of the run that are not blocked, were not tried, for which
  // `satisfies`, and that have room. A block of islands at a time, so that those that satisfy are
  // looked at while they are in the nearest cache.
  template <typename Predicate>
  void Find(Predicate satisfies) {
    Tally tally;
    const uint64_t session = ask_.session.empty() ? 0 : HashOfSession();
    for (size_t begin = 0; begin < islands_.size(); begin += kBlock) {
      uint64_t found = FindInBlock(begin, satisfies);
      for (; found != 0; found &= found - 1) {
        const size_t place = begin + static_cast<size_t>(std::countr_zero(found));
        if (!ask_.tried.empty() && WasTried(place)) continue;
        const IslandView& island = islands_[place];
        if (!HasRoom(island)) {
          tally.full = true;
          continue;
        }
        places_[tally.count++] = static_cast<uint32_t>(place);
        if (!ask_.session.empty()) Rank(island, static_cast<uint32_t>(place), session, &tally);
      }
    }
    tally_ = tally;
  }

  // A bit for each.
  template <typename Predicate>
  uint64_t FindInBlock(size_t begin, Predicate satisfies) const {
    const uint32_t run = ask_.run;
    const size_t size = std::min(kBlock, islands_.size() - begin);
    const IslandView* const islands = islands_.data() + begin;
    uint64_t found = 0;
    for (size_t i = 0; i < size; ++i) {
      const uint64_t fits =
          Bit(islands[i].run == run) & Bit(!islands[i].blocked) & satisfies(islands[i]);
      found |= fits << i;
    }
    return found;
  }

  void FindServing() {
    Find([versions = versions_](const IslandView& island) {
      return Bit(island.state <= IslandState::kStaging) & versions.Has(island.served);
    });
  }

  // On the way it learns what a refusal says and whether to wait.
  void FindCommitting() {
    Find([this](const IslandView& island) {
      const unsigned live = Bit(island.run == ask_.run) & Bit(!island.blocked) &
                            Bit(island.state <= IslandState::kCommitting);
      newest_served_ = std::max(newest_served_, island.served & (0 - VersionNumber{live}));
      live_ |= live;
      may_come_ = may_come_ || MayCome(island);
      return Bit(island.state == IslandState::kCommitting) & versions_.Has(island.target);
    });
  }

  static void Rank(const IslandView& island, uint32_t place, uint64_t session, Tally* tally) {
    tally->weights += WeightOf(island);
    tally->in_flight += island.in_flight;
    const uint64_t score = Mix(session ^ island.placement);
    if (score <= tally->first.back().score) return;
    size_t at = tally->first.size() - 1;
    for (; at > 0 && tally->first[at - 1].score < score; --at) {
      tally->first[at] = tally->first[at - 1];
    }
    tally->first[at] = {score, place};
  }

  std::span<uint32_t> places() { return {places_.data(), tally_.count}; }

  uint64_t HashOfSession() const { return XXH3_64bits(ask_.session.data(), ask_.session.size()); }

  void PreferSteady() {
    const auto stages = [this](uint32_t place) {
      return islands_[place].state == IslandState::kStaging;
    };
    if (std::all_of(places().begin(), places().end(), stages)) return;
    const std::span<uint32_t> all = places();
    tally_ = {};
    const uint64_t session = ask_.session.empty() ? 0 : HashOfSession();
    for (const uint32_t place : all) {
      if (stages(place)) continue;
      places_[tally_.count++] = place;
      if (!ask_.session.empty()) Rank(islands_[place], place, session, &tally_);
    }
  }

  uint32_t LighterOfTwo() {
    const auto below = [](uint64_t bits, uint64_t end) { return (bits & 0xFFFFFFFF) * end >> 32; };
    const size_t one = below(random_, tally_.count);
    if (tally_.count == 1) return places_[one];
    size_t other = below(random_ >> 32, tally_.count - 1);
    if (other >= one) ++other;
    const IslandView& first = islands_[places_[one]];
    const IslandView& second = islands_[places_[other]];
    const bool lighter =
        (second.in_flight + 1.0) * first.share < (first.in_flight + 1.0) * second.share;
    return places_[lighter ? other : one];
  }

  // Rendezvous hashing among those whose load with this request is within the bound: an integer is
  // below x if and only if one more is at most the ceiling of x. There is always one: if all had at
  // least the fair load of one request more, they would have more than they have together.
  uint32_t PlaceOfSession() {
    for (const Ranked& ranked : tally_.first) {
      if (ranked.score > 0 && IsWithinBound(islands_[ranked.place])) return ranked.place;
    }
    const uint64_t session = HashOfSession();
    Ranked best{.place = places_[0]};
    for (const uint32_t place : places()) {
      const uint64_t score = Mix(session ^ islands_[place].placement);
      if (score > best.score && IsWithinBound(islands_[place])) best = {score, place};
    }
    return best.place;
  }

  // Multiplied out: all are whole numbers or quarters, and compare exactly.
  bool IsWithinBound(const IslandView& island) const {
    return island.in_flight * static_cast<double>(tally_.weights) <
           kLoadBound * static_cast<double>(tally_.in_flight + 1) * WeightOf(island);
  }

  // The finalizer of SplitMix64: a bijection, so two islands have the same score only if their ids
  // have the same hash.
  static uint64_t Mix(uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
    return bits ^ (bits >> 31);
  }

  Choice WithoutCandidate(bool full) {
    FindCommitting();
    Choice choice{.newest = newest_served_};
    if (full) {
      choice.verdict = Verdict::kQueue;
    } else if (tally_.count > 0) {
      choice.verdict = Verdict::kSendEarly;
      choice.island = ask_.session.empty() ? FewestInFlight() : PlaceOfSession();
    } else if (tally_.full || (ask_.may_wait && may_come_)) {
      choice.verdict = Verdict::kWait;
    } else if (live_ != 0) {
      choice.verdict = Verdict::kRefuse;
    }
    return choice;
  }

  // Islands go forward, unless their target says otherwise: a version below is passed.
  bool MayCome(const IslandView& island) const {
    if (island.run != ask_.run || island.state == IslandState::kDraining ||
        island.state == IslandState::kGone) {
      return false;
    }
    // No lag holds before the log was read.
    if (versions_.empty()) return newest_ == kNoVersion;
    return versions_.to >= island.served || versions_.Has(island.target) != 0;
  }

  uint32_t FewestInFlight() {
    return *std::min_element(places().begin(), places().end(), [&](uint32_t one, uint32_t other) {
      const IslandView& left = islands_[one];
      const IslandView& right = islands_[other];
      if (left.in_flight != right.in_flight) return left.in_flight < right.in_flight;
      return left.placement < right.placement;
    });
  }

  const Ask& ask_;
  const std::vector<IslandView>& islands_;
  const uint64_t random_;
  std::vector<uint32_t>& places_;
  Tally tally_;  // of places_; the first `count` of them are meant
  VersionNumber newest_served_ = kNoVersion;
  unsigned live_ = 0;      // some island serves or is about to
  bool may_come_ = false;  // some island may yet serve a version that satisfies
  VersionNumber newest_ = kNoVersion;
  lane::Constraint constraint_;
  Versions versions_;
};

}  // namespace

Choice ChooseIsland(const Ask& ask, const Snapshot& snapshot, uint64_t random) {
  return Decision(ask, snapshot, random).Make();
}

bool Satisfies(const lane::Constraint& constraint, VersionNumber served, VersionNumber newest) {
  return VersionsOf(constraint, newest).Has(served);
}

}  // namespace isthmus::gateway
