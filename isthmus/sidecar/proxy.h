// Passes rollout requests to the island's engines: admitted by version, isolated in the engines'
// caches by version, stamped with the versions that made the answer.
#ifndef ISTHMUS_SIDECAR_PROXY_H_
#define ISTHMUS_SIDECAR_PROXY_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/lane/answer_stamp.h"
#include "isthmus/lane/refusal.h"
#include "isthmus/lane/request_headers.h"
#include "isthmus/lane/routes.h"
#include "isthmus/net/byte_budget.h"
#include "isthmus/net/client.h"
#include "isthmus/net/exchange.h"
#include "isthmus/sidecar/gate_keeper.h"
#include "isthmus/sidecar/presence.h"

namespace isthmus::sidecar {

using lane::Answer;
using lane::AnswerStamp;
using lane::Route;

struct ProxyOptions {
  std::string run;
  uint64_t max_body_bytes = uint64_t{64} << 20;
  // Of all bodies that were not yet passed on: those that come in and those that wait.
  uint64_t max_held_bytes = uint64_t{1} << 30;
  // Sent to the engines instead of what the client sent; empty: the client's own field is passed
  // on, unless `keep_authorization` is false.
  std::string engine_token;
  bool keep_authorization = true;
  net::ClientLimits limits = {};
  std::shared_ptr<const net::ClientTls> tls;
};

struct ProxyCounters {
  uint64_t admitted = 0;
  uint64_t not_ready = 0;     // 409
  uint64_t revoked = 0;       // 410
  uint64_t unavailable = 0;   // 503 by the gate
  uint64_t invalid = 0;       // 400
  uint64_t blocked = 0;       // 403
  uint64_t expired = 0;       // 504, or cut off: the time that they gave was over
  uint64_t aborted = 0;       // by the gate, while in flight
  uint64_t failed = 0;        // the engine broke off, or could not be reached
  uint64_t disconnected = 0;  // the client went away
  uint64_t without_salt = 0;  // admitted, though the engine has no field that isolates its cache
  uint64_t crossed = 0;       // answers that began at one version and ended at another
};

// Used on its loop's thread only.
class Proxy {
 public:
  // `upstreams`: where requests go, at least one; each goes to the one with the fewest in flight,
  // those of a session to the same one.
  Proxy(net::Loop& loop, ProxyOptions options, GateKeeper& keeper, Presence& presence,
        std::vector<net::Origin> upstreams);

  // The field that isolates the engines' prefix caches (engine::Abilities::salt_field).
  void set_salt_field(std::string field) { salt_field_ = std::move(field); }
  // Called when an engine could not be reached or broke off.
  void set_on_failure(std::function<void()> on_failure) { on_failure_ = std::move(on_failure); }

  // Answers a request for a route that RouteOf does not know as the sidecar's own.
  net::Task<void> Handle(net::Exchange& exchange);

  const ProxyCounters& counters() const { return counters_; }
  const net::ClientCounters& client_counters() const { return client_.counters(); }

 private:
  struct Upstream {
    net::Origin origin;
    size_t in_flight = 0;
  };
  struct Turn;  // an admitted request on its way

  net::Task<void> Generate(net::Exchange& exchange, Route route);
  net::Task<void> Expire(net::Exchange& exchange, const std::string& request_id);
  net::Task<void> Inform(net::Exchange& exchange);
  net::Task<void> Serve(net::Exchange& exchange, Turn& turn);
  net::Task<void> Forward(net::Exchange& exchange, Turn& turn);
  net::Task<void> PassJson(net::Exchange& exchange, net::Call& call, net::ResponseHead head,
                           Turn& turn);
  net::Task<void> PassEvents(net::Exchange& exchange, net::Call& call, net::ResponseHead head,
                             Turn& turn);
  net::Task<void> PassOn(net::Exchange& exchange, net::Call& call, net::ResponseHead head);
  net::Task<void> Refuse(net::Exchange& exchange, Answer answer,
                         const std::string& request_id = {});
  net::RequestHead HeadFor(net::RequestHead head) const;
  Upstream& Choose(const std::string& session);
  std::string SaltFor(VersionNumber version, const std::optional<std::string>& user_salt);

  ProxyOptions options_;
  GateKeeper& keeper_;
  Presence& presence_;
  net::Client client_;
  std::vector<Upstream> upstreams_;
  net::ByteBudget held_;
  std::string salt_field_;
  VersionNumber plain_salt_version_ = kNoVersion;
  std::string plain_salt_;  // of that version, for requests without one of their own
  std::function<void()> on_failure_;
  ProxyCounters counters_;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_PROXY_H_
