// Passes rollout requests to islands that satisfy them, and their answers back. Rules:
// docs/gateway.md, "Passing on".
#ifndef ISTHMUS_GATEWAY_PROXY_H_
#define ISTHMUS_GATEWAY_PROXY_H_

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "isthmus/gateway/entrance.h"
#include "isthmus/gateway/island_call.h"
#include "isthmus/gateway/pins.h"
#include "isthmus/gateway/pool.h"
#include "isthmus/gateway/router.h"
#include "isthmus/gateway/turn.h"
#include "isthmus/net/bell.h"
#include "isthmus/net/client.h"
#include "isthmus/net/exchange.h"

namespace isthmus::gateway {

struct ProxyOptions {
  std::string instance;  // of the gateway: begins the ids of requests that have none
  std::string run;       // of requests that name none; empty: the only one
  RoomLimits room;
  net::Milliseconds queue_limit{60'000};  // that a request waits for room
  uint64_t max_body_bytes = uint64_t{64} << 20;
  // Of all bodies that no island has answered yet.
  uint64_t max_held_bytes = uint64_t{1} << 30;
  uint32_t attempts = 4;
  // A second island is asked if the first has given no byte for so long; 0: never.
  net::Milliseconds hedge_after{0};
  std::optional<uint64_t> max_lag;  // of every request, in versions
  bool record = false;              // answers are collected
  bool record_requests = false;     // and requests are kept
  size_t record_answer_bytes = size_t{64} << 20;
  uint64_t record_held_bytes = uint64_t{1} << 30;  // of all answers that are being collected
  // Sent to islands in place of what the client sent; empty: the client's own field is passed on,
  // unless `keep_authorization` is false.
  std::string island_token;
  bool keep_authorization = true;
  net::ClientLimits limits = {};
  std::shared_ptr<const net::ClientTls> tls;
};

inline constexpr size_t kOutcomes = 5;  // of Outcome

struct ProxyCounters {
  std::array<uint64_t, kTurnEnds> ends{};      // by TurnEnd
  std::array<uint64_t, kOutcomes> attempts{};  // by Outcome
  uint64_t hedged = 0;                         // requests for which a second island was asked
  uint64_t bytes_in = 0;                       // of bodies
  uint64_t bytes_out = 0;
};

// Used on its loop's thread only.
class Proxy {
 public:
  // `pool` must outlive this.
  Proxy(net::Loop& loop, ProxyOptions options, Pool& pool);

  // Answers a request for a route that lane::RouteOf knows, or that it blocks.
  net::Task<void> Handle(net::Exchange& exchange);

  // Islands have changed in what may let a waiting request go.
  void OnPoolChanged();
  // Called once for each request when all of it has ended. Must not throw.
  void set_on_end(std::function<void(const Turn&)> on_end) { on_end_ = std::move(on_end); }
  // Called once for an answer that was collected and is finished, before its last bytes leave; may
  // take it apart. Must not throw.
  void set_on_rollout(std::function<void(Turn&)> on_rollout) {
    on_rollout_ = std::move(on_rollout);
  }
  // Called for each attempt that another one follows, if any island is left, and for a promise that
  // is broken within a stream: Turn::failure says why. Must not throw.
  void set_on_failure(std::function<void(const Turn&, uint32_t island, Outcome)> on_failure) {
    on_failure_ = std::move(on_failure);
  }

  const ProxyCounters& counters() const { return counters_; }
  const FairQueue& queue() const { return entrance_.queue(); }
  uint64_t waiting() const { return waiting_; }  // for a version, here

 private:
  // proxy.cc: reading, waiting, choosing.
  net::Task<bool> Read(net::Exchange& exchange, Turn& turn);
  void ReadFields(Turn& turn);
  void PrepareHead(Turn& turn) const;
  net::Task<void> Serve(net::Exchange& exchange, Turn& turn);
  net::Task<void> Enter(net::Exchange& exchange, Turn& turn);
  net::Task<void> Place(net::Exchange& exchange, Turn& turn);
  std::optional<std::string> FindRun(Turn& turn) const;
  bool Pin(Turn& turn);
  bool HasItsRun(const Turn& turn) const;
  Choice Choose(Turn& turn);
  Choice ChooseSecond(Turn& turn, uint32_t first);
  net::Task<bool> AwaitChange(Turn& turn, Verdict verdict);
  void FitRoom();
  net::Task<bool> TryIsland(net::Exchange& exchange, Turn& turn, const Choice& choice);
  net::Task<bool> TryTwo(net::Exchange& exchange, Turn& turn, const Choice& choice);
  Question QuestionOf(const Turn& turn) const;
  void TakeFailure(Turn& turn, uint32_t island, Reply& reply);
  net::RequestHead HeadFor(const Turn& turn, const Choice& choice) const;
  net::Task<void> Refuse(net::Exchange& exchange, Turn& turn, const Choice& choice);
  net::Task<void> RefusePin(net::Exchange& exchange, Turn& turn);
  net::Task<void> Respond(net::Exchange& exchange, Turn& turn, lane::Answer answer, TurnEnd end);

  // proxy_answer.cc
  net::Task<void> PassOn(net::Exchange& exchange, Turn& turn, Reply& reply, IslandVisit& visit);
  void BeginAnswer(Turn& turn, bool whole, net::ResponseHead* head);
  void BeginCollecting(Turn& turn);
  void Observe(Turn& turn, std::string_view piece);
  void CheckEnd(Turn& turn, IslandVisit& visit);
  static bool IsOver(const Turn& turn, std::string_view piece);
  void EndAnswer(Turn& turn);
  void RecordFinished(Turn& turn);
  VersionNumber Newest(const Turn& turn) const;
  void Finish(const Turn& turn);

  net::Loop& loop_;
  ProxyOptions options_;
  Pool& pool_;
  Entrance entrance_;
  net::Client client_;
  net::ByteBudget held_;
  net::ByteBudget collected_;
  std::shared_ptr<net::DeadlineList> deadlines_;
  net::Bell changed_;  // an island has reported
  net::Bell room_;     // an island has room again
  Pins pins_;
  std::mt19937_64 random_;
  uint64_t next_id_ = 0;
  uint64_t fleet_room_ = 0;
  uint64_t waiting_ = 0;  // for changed_
  uint64_t queued_ = 0;   // for room_
  std::function<void(const Turn&)> on_end_;
  std::function<void(Turn&)> on_rollout_;
  std::function<void(const Turn&, uint32_t island, Outcome)> on_failure_;
  ProxyCounters counters_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_PROXY_H_
