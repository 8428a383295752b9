// Which island gets a request: a pure function of the request, its session and a snapshot of the
// islands. Rules: docs/gateway.md, "Choosing an island". No I/O, no clock; randomness is given.
#ifndef ISTHMUS_GATEWAY_ROUTER_H_
#define ISTHMUS_GATEWAY_ROUTER_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "isthmus/gateway/snapshot.h"
#include "isthmus/lane/request.h"

namespace isthmus::gateway {

// No session gets an island whose load is above this times the fair one, while another has room.
inline constexpr double kLoadBound = 1.25;

// What a request asks. Views live as long as the call.
struct Ask {
  uint32_t run = 0;  // its place in Snapshot::runs
  // min_version, exact_version and max_lag_versions are looked at. A lag in time is the island's to
  // judge, and so is its run, which is `run`.
  const lane::Constraint* constraint = nullptr;
  std::string_view session = {};         // empty: belongs to none
  std::span<const uint32_t> tried = {};  // islands that are not to be asked again
  // It gave a wait that is not over. Without, kWait still comes while a switch is under way:
  // whoever gave a wait of 0 is refused all the same, by the caller.
  bool may_wait = false;
};

enum class Verdict {
  kSend,       // to `island`, which satisfies it
  kSendEarly,  // to `island`, which will when its gate opens: the request waits there
  kQueue,      // islands satisfy it, none has room
  kWait,       // none satisfies it yet, but one may: ask again when an island reports
  kRefuse,     // 409, with `newest`
  kNoIsland,   // 503: the run has no island that serves or switches
};

struct Choice {
  Verdict verdict = Verdict::kNoIsland;
  uint32_t island = 0;        // kSend, kSendEarly
  bool alternatives = false;  // kSend: another island would do as well
  // That the run's islands serve, those aside that are suspect or blocked. Unless kSend.
  VersionNumber newest = kNoVersion;
};

// `random` is any 64 random bits: two islands are drawn from it. Deterministic. O(islands), at most
// 5 us for 1,000; allocates only in a thread that meets more islands than it ever did. Thread-safe.
Choice ChooseIsland(const Ask& ask, const Snapshot& snapshot, uint64_t random);

// Whether an island that serves `served`, of a run whose newest version is `newest`, satisfies what
// the constraint says of versions; also used on answers' stamps, where nothing else can be known.
bool Satisfies(const lane::Constraint& constraint, VersionNumber served, VersionNumber newest);

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_ROUTER_H_
