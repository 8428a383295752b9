// A rollout request on its way through the gateway, and what became of it.
#ifndef ISTHMUS_GATEWAY_TURN_H_
#define ISTHMUS_GATEWAY_TURN_H_

#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/gateway/fair_queue.h"
#include "isthmus/gateway/rollout_collector.h"
#include "isthmus/gateway/snapshot.h"
#include "isthmus/gateway/version_ends.h"
#include "isthmus/lane/refusal.h"
#include "isthmus/lane/request_headers.h"
#include "isthmus/lane/routes.h"
#include "isthmus/net/byte_budget.h"
#include "isthmus/net/http.h"

namespace isthmus::gateway {

// What became of a request, for counters: /metrics has one series for each.
enum class TurnEnd : uint8_t {
  kServed,
  kNotReady,      // 409
  kRevoked,       // 410
  kUnavailable,   // 503
  kShed,          // 429
  kDeadline,      // 504, or cut off at its deadline
  kInvalid,       // 400
  kBlocked,       // 403
  kFailed,        // cut off after its beginning, for an island's failure
  kDisconnected,  // the client went away
};
inline constexpr size_t kTurnEnds = 10;
std::string_view TurnEndName(TurnEnd end);  // "served", …

// Times are of the monotonic clock.
struct Turn {
  explicit Turn(net::ByteBudget& budget) : held(budget) {}

  // What was asked.
  lane::Route route;
  net::RequestHead head;  // as it came, for each island that is tried
  std::string path;
  std::string body;
  net::ByteBudget::Share held;  // of the body
  lane::Request request;        // with the gateway's own limits
  Priority priority = Priority::kTraining;
  std::string id;
  std::string client;
  MonotonicTime arrived;
  std::optional<MonotonicTime> wait_until;  // for a version
  std::optional<MonotonicTime> deadline;    // for all of it

  // Where it was sent.
  uint32_t run = kNoRun;           // its place in Snapshot::runs
  std::string run_name;            // of that place: a run may be forgotten meanwhile, its place not
  VersionNumber pin = kNoVersion;  // of its session, if the turn is pinned
  std::vector<uint32_t> tried;
  uint64_t tried_at = 0;  // the pool's generation at the first of them
  uint32_t attempts = 0;
  VersionNumber newest_sent = kNoVersion;  // the newest version that was known at the last of them
  std::optional<lane::Answer> refusal;     // the last that an island gave
  std::string failure;                     // why the last attempt failed; empty: none has

  // What came back.
  TurnEnd end = TurnEnd::kDisconnected;  // unless another end is reached
  bool expired = false;                  // its deadline has passed
  int status = 0;
  std::string island;
  VersionNumber version_start = kNoVersion;
  VersionNumber version_end = kNoVersion;
  uint64_t lag_start = 0;
  uint64_t lag_end = 0;
  double queued_ms = 0;
  double first_byte_ms = 0;
  bool streamed = false;
  bool ended = false;                         // all of the answer has come
  VersionEnds ends;                           // of a stream
  std::optional<RolloutCollector> collector;  // with --record
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_TURN_H_
