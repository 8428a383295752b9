#include "isthmus/gateway/router.h"

#include <algorithm>
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
    const bool full = FindServing();
    if (count_ == 0) return WithoutCandidate(full);
    Choice choice{.verdict = Verdict::kSend, .alternatives = count_ > 1};
    if (constraint_.exact_version) PreferSteady();
    choice.island = ask_.session.empty() ? LighterOfTwo() : PlaceOfSession();
    return choice;
  }

 private:
  static std::vector<uint32_t>& Scratch(size_t islands) {
    thread_local std::vector<uint32_t> places;
    if (places.size() < islands) places.resize(islands);
    return places;
  }

  bool WasTried(size_t place) const {
    return std::find(ask_.tried.begin(), ask_.tried.end(), place) != ask_.tried.end();
  }

  // Into places_: the islands of the run that are not blocked, were not tried, for which
  // `satisfies`, and that have room. Whether there are others that have none.
  template <typename Predicate>
  bool Find(Predicate satisfies) {
    // In registers: the compiler must take every write to `places` for one to what it points at.
    const std::span<const IslandView> islands = islands_;
    const uint32_t run = ask_.run;
    uint32_t* const places = places_.data();
    size_t count = 0;
    for (uint32_t place = 0; place < islands.size(); ++place) {
      const IslandView& island = islands[place];
      places[count] = place;
      count += Bit(island.run == run) & Bit(!island.blocked) & satisfies(island);
    }
    count_ = count;
    if (!ask_.tried.empty()) LeaveOut([this](uint32_t place) { return Bit(WasTried(place)); });
    const size_t satisfying = count_;
    LeaveOut([islands](uint32_t place) { return Bit(!HasRoom(islands[place])); });
    return count_ < satisfying;
  }

  template <typename Predicate>
  void LeaveOut(Predicate predicate) {
    size_t kept = 0;
    for (const uint32_t place : places()) {
      places_[kept] = place;
      kept += predicate(place) ^ 1U;
    }
    count_ = kept;
  }

  bool FindServing() {
    return Find([versions = versions_](const IslandView& island) {
      return Bit(island.state <= IslandState::kStaging) & versions.Has(island.served);
    });
  }

  // On the way it learns what a refusal says and whether to wait.
  bool FindCommitting() {
    return Find([this](const IslandView& island) {
      const unsigned live = Bit(island.run == ask_.run) & Bit(!island.blocked) &
                            Bit(island.state <= IslandState::kCommitting);
      newest_served_ = std::max(newest_served_, island.served & (0 - VersionNumber{live}));
      live_ |= live;
      may_come_ = may_come_ || MayCome(island);
      return Bit(island.state == IslandState::kCommitting) & versions_.Has(island.target);
    });
  }

  std::span<uint32_t> places() { return {places_.data(), count_}; }

  void PreferSteady() {
    const auto stages = [this](uint32_t place) {
      return Bit(islands_[place].state == IslandState::kStaging);
    };
    if (!std::all_of(places().begin(), places().end(), stages)) LeaveOut(stages);
  }

  uint32_t LighterOfTwo() {
    const auto below = [](uint64_t bits, uint64_t end) { return (bits & 0xFFFFFFFF) * end >> 32; };
    const size_t one = below(random_, count_);
    if (count_ == 1) return places_[one];
    size_t other = below(random_ >> 32, count_ - 1);
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
    uint64_t weights = 0;
    uint64_t in_flight = 1;
    for (const uint32_t place : places()) {
      weights += WeightOf(islands_[place]);
      in_flight += islands_[place].in_flight;
    }
    // Multiplied out: all are whole numbers or quarters, and compare exactly.
    const auto within = [&](const IslandView& island) {
      return island.in_flight * static_cast<double>(weights) <
             kLoadBound * static_cast<double>(in_flight) * WeightOf(island);
    };
    const uint64_t session = XXH3_64bits(ask_.session.data(), ask_.session.size());
    uint64_t best = 0;
    uint32_t chosen = places_[0];
    for (const uint32_t place : places()) {
      const IslandView& island = islands_[place];
      const uint64_t score = Mix(session ^ island.placement);
      if (score <= best || !within(island)) continue;
      best = score;
      chosen = place;
    }
    return chosen;
  }

  // The finalizer of SplitMix64: a bijection, so two islands have the same score only if their ids
  // have the same hash.
  static uint64_t Mix(uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
    return bits ^ (bits >> 31);
  }

  Choice WithoutCandidate(bool full) {
    const bool committing_full = FindCommitting();
    Choice choice{.newest = newest_served_};
    if (full) {
      choice.verdict = Verdict::kQueue;
    } else if (count_ > 0) {
      choice.verdict = Verdict::kSendEarly;
      choice.island = ask_.session.empty() ? FewestInFlight() : PlaceOfSession();
    } else if (committing_full || (ask_.may_wait && may_come_)) {
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
  size_t count_ = 0;  // of places_ that are meant
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
