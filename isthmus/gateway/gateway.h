// The gateway: one address for a fleet of islands. docs/gateway.md is normative.
#ifndef ISTHMUS_GATEWAY_GATEWAY_H_
#define ISTHMUS_GATEWAY_GATEWAY_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "isthmus/gateway/assets.h"
#include "isthmus/gateway/fleet.h"
#include "isthmus/gateway/history.h"
#include "isthmus/gateway/load_meter.h"
#include "isthmus/gateway/metrics.h"
#include "isthmus/gateway/pool.h"
#include "isthmus/gateway/prober.h"
#include "isthmus/gateway/proxy.h"
#include "isthmus/gateway/recorder.h"
#include "isthmus/gateway/sources.h"
#include "isthmus/gateway/staleness.h"
#include "isthmus/net/access.h"
#include "isthmus/net/bell.h"
#include "isthmus/net/server.h"
#include "isthmus/observe/event_log.h"

namespace isthmus::gateway {

struct GatewayOptions {
  PoolOptions pool;
  SourceOptions sources;
  ProberOptions prober;
  ProxyOptions proxy;  // its `instance`, `record` and `keep_authorization` are set here
  std::optional<RecordOptions> record;
  net::ServerOptions server;        // its `tls` is the one of `access`
  net::AccessOptions access;        // docs/gateway.md says which routes are an operator's
  std::string event_log;            // a file, "-" for standard error, empty for none
  std::string access_log;           // the same, with a line for each request
  net::Milliseconds drain{30'000};  // for requests in flight, at the end
};

// Used on its loop's thread only.
class Gateway {
 public:
  // Opens the spool, if rollouts are recorded, and listens; errors as theirs. Nothing is served
  // before Run.
  Gateway(net::Loop& loop, GatewayOptions options);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  uint16_t port() const { return server_->port(); }

  // Serves until Terminate, then drains and returns.
  net::Task<void> Run();
  void Terminate();
  // Reads certificates and tokens again; what cannot be read stays as it was, and is logged.
  void Reload();

 private:
  // gateway.cc: the process.
  net::Task<void> Watch();
  void Notice();
  void List(const std::vector<ListedIsland>& islands);
  void OnEnd(const Turn& turn);
  void LogAccess(const Turn& turn);
  void OnFailure(const Turn& turn, uint32_t island, Outcome outcome);

  // gateway_routes.cc: what it answers by itself.
  net::Task<void> Handle(net::Exchange& exchange);
  bool MayAsk(const net::RequestHead& request, std::string_view path) const;
  net::Task<void> HandleOwn(net::Exchange& exchange, std::string path, std::string query);
  net::Task<void> ServeAsset(net::Exchange& exchange, const Asset& asset);
  net::Task<void> ServeRegistration(net::Exchange& exchange);
  net::Task<void> ServeRemoval(net::Exchange& exchange, std::string id);
  net::Task<void> ServeReady(net::Exchange& exchange, std::string run, std::string query);
  net::Task<void> ServeRollout(net::Exchange& exchange, std::string id);
  std::string OwnText(std::string_view path, std::string_view query);
  GatewayFacts Facts() const;
  bool Serves() const;

  net::Loop& loop_;
  const std::string instance_;
  const WallTime started_;
  GatewayOptions options_;
  observe::EventLog events_;
  observe::EventLog accesses_;
  Pool pool_;
  Proxy proxy_;
  Sources sources_;
  Prober prober_;
  std::unique_ptr<Recorder> recorder_;  // null: rollouts are not recorded
  Staleness staleness_;
  LoadMeter meter_;
  History history_;
  Metrics metrics_;
  RegistrationCounters registrations_;
  uint64_t noticed_ = 0;  // the pool's generation
  net::Bell changed_;     // the pool has changed, or the end has come
  net::Access access_;
  net::Bell terminate_;
  bool terminating_ = false;
  std::unique_ptr<net::Server> server_;  // last: its handlers use all of the above
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_GATEWAY_H_
