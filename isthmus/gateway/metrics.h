// A gateway's numbers for Prometheus.
#ifndef ISTHMUS_GATEWAY_METRICS_H_
#define ISTHMUS_GATEWAY_METRICS_H_

#include <memory>
#include <optional>
#include <string>

#include "isthmus/gateway/proxy.h"
#include "isthmus/gateway/recorder.h"
#include "isthmus/gateway/staleness.h"
#include "isthmus/net/server.h"

namespace isthmus::gateway {

struct RegistrationCounters {
  uint64_t accepted = 0;
  uint64_t conflicts = 0;  // an id that another island has
  uint64_t refused = 0;    // malformed, or no place
};

// Names begin with "isthmus_gateway_". Used on one thread. No series is an island's own: with 1,000
// of them, GET /v1/fleet is the place to look.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // A request has ended.
  void Observe(const Turn& turn);

  // What is true at the moment of a scrape.
  struct Moment {
    const Proxy& proxy;
    const Snapshot& snapshot;
    const Staleness& staleness;
    const RegistrationCounters& registrations;
    const net::ServerCounters& server;
    std::optional<RecorderCounters> recorder;
    uint64_t lost_events;
  };
  // The text exposition format, version 0.0.4.
  std::string Expose(const Moment& moment);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_METRICS_H_
