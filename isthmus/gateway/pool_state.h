// What a pool consists of. For pool.cc and its parts only.
#ifndef ISTHMUS_GATEWAY_POOL_STATE_H_
#define ISTHMUS_GATEWAY_POOL_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isthmus/gateway/island.h"
#include "isthmus/gateway/pool.h"

namespace isthmus::gateway {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using PlacesByName = std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>>;

// The snapshot's list of runs: which islands are of which, and the newest version of each.
class RunList {
 public:
  explicit RunList(std::vector<RunView>* views) : views_(*views) {}

  std::optional<uint32_t> Find(std::string_view name) const;
  // An island is of this run from now on; its place.
  uint32_t Join(std::string_view name);
  // The last one to leave a run ends it.
  void Leave(uint32_t run);
  // An island's word on the newest version of a run was `before` and is `now`.
  void Witness(uint32_t run, VersionNumber before, VersionNumber now);
  // Whether a run's newest version has to be found anew (Recount): who knew of it took it back.
  bool dirty() const { return dirty_; }
  // `newest`: of each place, over all witnesses.
  void Recount(const std::vector<VersionNumber>& newest);
  // Grows with each change of a newest version.
  uint64_t changes() const { return changes_; }

 private:
  std::vector<RunView>& views_;
  std::vector<uint32_t> islands_;  // of each place
  std::vector<uint32_t> free_;
  PlacesByName places_;
  bool dirty_ = false;
  uint64_t changes_ = 0;
};

struct Pool::State {
  explicit State(PoolOptions o) : options(o) {}

  PoolOptions options;
  Snapshot snapshot;
  RunList runs{&snapshot.runs};
  std::vector<Island> islands;           // in the places of snapshot.islands
  std::vector<VersionNumber> witnessed;  // what each said of its run's newest version, as it counts
  std::vector<uint32_t> free;
  PlacesByName places;               // by id
  std::vector<ListedIsland> listed;  // all that the lists say
  bool listed_wait = false;          // one of them has an id that is registered
  bool relist = false;               // which may have left
  uint64_t generation = 0;

  // Brings the snapshot's row up to date. O(1).
  void Refresh(uint32_t place, MonotonicTime now);
  void SetRun(uint32_t place, bool witness);
  // After Refreshes: what concerns all islands.
  void Settle(MonotonicTime now);

  // A place of its own for an island that is not known. kUnavailable.
  uint32_t Place(const std::string& id);
  bool ForgetOldest();
  void Forget(uint32_t place);
  void Leave(uint32_t place, MonotonicTime now);
  // An island that is known is there, again or anew.
  void Enter(uint32_t place, const net::Origin& url, IslandSource source, MonotonicTime now);
  std::vector<ListedIsland> ApplyListed(MonotonicTime now);
  bool List(const ListedIsland& island, MonotonicTime now);
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_POOL_STATE_H_
