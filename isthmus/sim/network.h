// Links, relays and what is on its way over them. Pure; not thread-safe.
//
// All transfers of a link share it evenly. The origin's egress, if it is limited, is shared evenly
// by all transfers that their own link does not hold back further (max-min). A relay fetches each
// payload once and passes it on while it comes in; its islands share what it gives.
#ifndef ISTHMUS_SIM_NETWORK_H_
#define ISTHMUS_SIM_NETWORK_H_

#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "isthmus/sim/payloads.h"
#include "isthmus/sim/sharing.h"
#include "isthmus/sim/timeline.h"

namespace isthmus::sim {

using FetchId = uint32_t;
inline constexpr FetchId kNoFetch = UINT32_MAX;

class Network {
 public:
  // All must outlive it.
  Network(const Scenario& scenario, const Payloads& payloads, Timeline& timeline);

  // An island of a region fetches what the plan says. When all of it is there, and after one round
  // trip, the event kFetched(island, incarnation) comes.
  FetchId Start(uint32_t region, const replica::Plan& plan, uint32_t island, uint32_t incarnation);
  // The island is gone. What its relay fetches goes on. Nothing, if that fetch has ended.
  void Cancel(FetchId id, uint32_t island, uint32_t incarnation);
  // The event kLink(link). False: it was an old one, and nothing happened.
  bool OnLink(uint32_t link);

  // Over the region's link from the origin, and from its relay to its islands, up to now.
  double LinkBytes(uint32_t region) const { return links_[region].bytes; }
  double RelayBytes(uint32_t region) const { return links_[regions() + region].bytes; }
  // Counts what is under way up to now; the simulation is over.
  void Settle();

 private:
  struct Link {
    Sharing transfers;
    double capacity = 0;
    double each_at_most = 0;  // what one transfer takes
    double bytes = 0;
    SimTime armed = kNever;  // when the event comes that is not an old one
  };
  struct Transfer {
    double bytes = 0;
    FetchId fetch = kNoFetch;         // of an island
    replica::PlannedPayload payload;  // of a relay
    uint32_t link = 0;
  };
  struct Fetch {
    uint32_t island = 0;
    uint32_t incarnation = 0;
    uint32_t region = 0;
    uint32_t pending = 0;  // transfers, its own and those of its relay
    uint32_t own = UINT32_MAX;
    bool cancelled = false;
  };
  struct Relay {
    std::set<replica::PlannedPayload> held;
    std::map<replica::PlannedPayload, std::vector<FetchId>> coming;
  };

  uint32_t regions() const { return static_cast<uint32_t>(relays_.size()); }
  bool FromOrigin(uint32_t link) const { return link < regions(); }
  uint32_t Begin(const Transfer& transfer);
  void AskRelay(Relay& relay, const replica::PlannedPayload& payload, uint32_t region, FetchId id);
  void End(uint32_t id);
  void Done(FetchId id);
  void Share(uint32_t link);
  void ShareEgress();
  void SetRate(uint32_t link, double rate);
  void Arm(uint32_t link);

  const Scenario& scenario_;
  const Payloads& payloads_;
  Timeline& timeline_;
  std::vector<Link> links_;  // from the origin to each region; then from each relay
  std::vector<Relay> relays_;
  std::vector<Transfer> transfers_;
  std::vector<uint32_t> free_transfers_;
  std::vector<Fetch> fetches_;
  std::vector<FetchId> free_fetches_;
  std::vector<uint32_t> by_need_;  // scratch of ShareEgress
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_NETWORK_H_
