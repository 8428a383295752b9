// A sidecar's numbers for Prometheus.
#ifndef ISTHMUS_SIDECAR_METRICS_H_
#define ISTHMUS_SIDECAR_METRICS_H_

#include <memory>
#include <string>

#include "isthmus/net/server.h"
#include "isthmus/sidecar/gate.h"
#include "isthmus/sidecar/proxy.h"
#include "isthmus/sidecar/reconciler.h"

namespace isthmus::sidecar {

// Names begin with "isthmus_sidecar_"; all carry the label "run". Used on one thread.
class Metrics {
 public:
  explicit Metrics(const std::string& run);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Counts one update, and the time of each of its phases.
  void Observe(const Update& update);

  // What is true at the moment of a scrape.
  struct Moment {
    const Gate& gate;
    const IslandReport& report;
    const ProxyCounters& proxy;
    const net::ServerCounters& server;
    uint64_t lost_events = 0;
  };
  // The text exposition format, version 0.0.4.
  std::string Expose(const Moment& moment);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_METRICS_H_
