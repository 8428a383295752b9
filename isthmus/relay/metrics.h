// A relay's numbers for Prometheus.
#ifndef ISTHMUS_RELAY_METRICS_H_
#define ISTHMUS_RELAY_METRICS_H_

#include <memory>
#include <string>

#include "isthmus/net/server.h"
#include "isthmus/relay/objects.h"
#include "isthmus/relay/watch_hub.h"

namespace isthmus::relay {

// Names begin with "isthmus_relay_". Used on one thread.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // What is true at the moment of a scrape.
  struct Moment {
    const net::ServerCounters& server;
    const OriginCounters& origin;
    const Objects& objects;
    const WatchHub& watches;
    const CacheIndex* cache;  // null: none
    uint64_t client_bytes;
  };
  // The text exposition format, version 0.0.4.
  std::string Expose(const Moment& moment);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_METRICS_H_
