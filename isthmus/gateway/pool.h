// The islands that a gateway knows: who they are, what they said last, how they have behaved.
// Rules: docs/gateway.md, "Islands". Pure: no I/O, no clock. Not thread-safe.
#ifndef ISTHMUS_GATEWAY_POOL_H_
#define ISTHMUS_GATEWAY_POOL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/gateway/island_report.h"
#include "isthmus/gateway/snapshot.h"
#include "isthmus/net/http.h"

namespace isthmus::gateway {

using std::chrono::milliseconds;

struct PoolOptions {
  size_t max_islands = 10'000;  // beyond, registrations are refused (kUnavailable)
  uint32_t island_in_flight = 256;
  milliseconds slow_start{10'000};
  // A report older than this is none: the island is suspect.
  milliseconds stale{10'000};
  milliseconds remembered{600'000};  // that islands are listed as gone
};

enum class IslandSource : uint8_t { kRegistered, kListed };

// The body of POST /v1/islands.
struct Registration {
  std::string id;
  std::string instance;
  net::Origin url;
  milliseconds ttl{10'000};
  bool leaving = false;
  std::optional<IslandReport> report;
};
inline constexpr size_t kMaxRegistrationBytes = kMaxReportBytes + 4096;
// kInvalid, naming the field: hostile input. A wrong `info` is an error too.
Registration ReadRegistration(std::string_view body);
// kInvalid unless it is 1 to 128 characters of [A-Za-z0-9._-], not beginning with '.'.
void CheckIslandId(std::string_view id);

// An island from a list, a file or a name.
struct ListedIsland {
  std::string id;
  net::Origin url;

  auto operator<=>(const ListedIsland&) const = default;
};

// How a request that was sent to an island ended, as far as it says something of the island.
enum class Outcome : uint8_t {
  kServed,         // an answer came, and its stamp keeps the promise
  kRefused,        // 409 or 503 of its sidecar: it is no failure, but its report is out of date
  kFailed,         // no connection, cut off, 500, 502, 504
  kBrokenPromise,  // the stamp does not satisfy the request
  kAbandoned,      // the client went away: says nothing
};

// What is shown of one island (GET /v1/fleet).
struct IslandFacts {
  uint32_t place;  // in the snapshot
  std::string id;
  net::Origin url;
  IslandSource source;
  IslandState state;
  std::string reason;  // why it gets no requests; empty if it does
  float share;
  std::string_view breaker;   // "closed", "open", "half-open"
  uint32_t failures;          // in a row
  milliseconds since_report;  // negative: it never reported
  // The last one, shared with the pool; never null, empty before the first.
  std::shared_ptr<const IslandReport> report;
};

class Pool {
 public:
  explicit Pool(PoolOptions options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // A registration or heartbeat. kConflict if another instance at another URL has the id and is
  // believed; kUnavailable if there is no place. An island from a list may register too, at its
  // URL: it is never gone for the end of its heartbeats.
  void Register(const Registration& registration, MonotonicTime now);
  // Registered islands only; false if there is none.
  bool Remove(std::string_view id, MonotonicTime now);
  // All that the lists, files and names say now, replacing what they said before. Of ids that come
  // twice, or are registered, the first one counts; the others are returned.
  std::vector<ListedIsland> SetListed(const std::vector<ListedIsland>& islands, MonotonicTime now);

  // Its /server_info was read, or could not be. Ignored for a place that is empty or gone by now;
  // whoever read it looks whether the place still has the id and URL that were asked.
  void OnReport(uint32_t place, IslandReport report, MonotonicTime now);
  void OnUnreachable(uint32_t place, std::string_view why, MonotonicTime now);

  // A request is sent to an island, and has ended there. Between them it counts in in_flight.
  void OnSent(uint32_t place, MonotonicTime now);
  void OnEnded(uint32_t place, Outcome outcome, MonotonicTime now);

  // What time changes: TTLs, breakers, slow starts, suspicion. True if the snapshot changed in what
  // may let a waiting request go. Call it at least every 250 ms.
  bool Advance(MonotonicTime now);

  // Valid until the next call that is not const. Places stay an island's own until it is forgotten.
  const Snapshot& snapshot() const;
  // Grows with each change that may let a waiting request go, or tell it that it need not wait.
  uint64_t generation() const;

  size_t size() const;  // places, with those of islands that are gone and those that are empty
  const std::string& id(uint32_t place) const;  // empty: so is the place
  const net::Origin& url(uint32_t place) const;
  std::optional<uint32_t> Find(std::string_view id) const;
  std::optional<uint32_t> FindRun(std::string_view run) const;
  // A run is forgotten with its last island that is not gone: its place in snapshot().runs then has
  // no name and may become another's, so whoever waits asks for the place again (FindRun).
  std::vector<IslandFacts> Facts(MonotonicTime now) const;

  // Islands that should be asked for their /server_info, each at most so often as said. Registered
  // ones every fifth time, as long as they answer. A refusal says that the report is out of date:
  // after it a tenth of the time is enough.
  std::vector<uint32_t> DuePolls(milliseconds every, MonotonicTime now);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_POOL_H_
