// The sidecar: one island's gate, reconciler and proxy behind one listener.
#ifndef ISTHMUS_SIDECAR_SIDECAR_H_
#define ISTHMUS_SIDECAR_SIDECAR_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/engine/engine.h"
#include "isthmus/net/access.h"
#include "isthmus/net/server.h"
#include "isthmus/observe/event_log.h"
#include "isthmus/sidecar/announcer.h"
#include "isthmus/sidecar/metrics.h"
#include "isthmus/sidecar/presence.h"
#include "isthmus/sidecar/proxy.h"
#include "isthmus/sidecar/reconciler.h"

namespace isthmus::sidecar {

struct SidecarOptions {
  Stager::Options stager;  // board, run, replica
  std::vector<engine::EngineSpec> engines;
  engine::EngineOptions engine;        // of all of them
  std::vector<net::Origin> upstreams;  // empty: the engines themselves
  std::string restart_program;         // empty: none
  ReconcilerOptions reconciler;        // run and pin are those of here
  GateOptions gate;
  ProxyOptions proxy;
  AnnouncerOptions announcer;  // its URL, if empty, is the listener's
  net::ServerOptions server;   // its `tls` is the one of `access`
  net::AccessOptions
      access;             // clients: rollout requests; operators: all else but /health and /live
  std::string event_log;  // a file, "-" for standard error, empty for none
  net::Milliseconds drain{30'000};  // for requests in flight, at the end
};

// Used on its loop's thread only.
class Sidecar {
 public:
  // Opens the replica and listens; errors as theirs. Nothing is served before Run.
  Sidecar(net::Loop& loop, SidecarOptions options);
  ~Sidecar();
  Sidecar(const Sidecar&) = delete;
  Sidecar& operator=(const Sidecar&) = delete;

  uint16_t port() const { return server_->port(); }

  // Serves until Terminate; then ends a switch that is under way, drains, and returns.
  net::Task<void> Run();
  void Terminate();
  // Reads certificates and tokens again; what cannot be read stays as it was, and is logged.
  void Reload();

 private:
  boost::json::object Info() const;
  void MakeAnnouncer();
  net::Task<void> Handle(net::Exchange& exchange);
  net::Task<void> HandleOwn(net::Exchange& exchange, std::string_view path);
  std::string OwnBody(std::string_view path);

  net::Loop& loop_;
  SidecarOptions options_;
  observe::EventLog events_;
  Stager stager_;
  GateKeeper keeper_;
  EngineGroup engines_;
  Presence presence_;
  Reconciler reconciler_;
  Proxy proxy_;
  Metrics metrics_;
  net::Access access_;
  net::Wakeup changed_;  // to be terminated, or the reconciler has ended
  bool terminating_ = false;
  std::optional<Announcer> announcer_;   // none: there are no gateways
  std::unique_ptr<net::Server> server_;  // last: its handlers use all of the above
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_SIDECAR_H_
