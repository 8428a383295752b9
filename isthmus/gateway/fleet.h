// What a gateway says about its fleet: GET /v1/fleet, and when enough of it serves a version.
// Shapes: docs/gateway.md. Pure.
#ifndef ISTHMUS_GATEWAY_FLEET_H_
#define ISTHMUS_GATEWAY_FLEET_H_

#include <boost/json/object.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/gateway/pool.h"

namespace isthmus::gateway {

struct GatewayFacts {
  std::string instance;
  WallTime started_at;
  uint64_t in_flight = 0;
  uint64_t queued = 0;
  uint64_t waiting = 0;
};

// `brief`: of the last updates only what a table shows.
boost::json::object FleetJson(const GatewayFacts& gateway, const Snapshot& snapshot,
                              const std::vector<IslandFacts>& islands, bool brief);

// GET /v1/runs/RUN/ready
struct ReadyQuery {
  VersionNumber version = kNoVersion;
  double fraction = 1;
  milliseconds timeout{30'000};
};
// `query` is what follows the "?". kInvalid, naming the parameter.
ReadyQuery ReadReadyQuery(std::string_view query);

struct Readiness {
  uint64_t islands = 0;  // of the run, that are neither gone nor draining
  uint64_t serving = 0;  // of these, the version or a newer one

  double fraction() const;
  // At least one serves, and at least the fraction of all.
  bool Satisfies(double asked) const;
};
// `run` is its place in the snapshot.
Readiness ReadinessOf(const Snapshot& snapshot, uint32_t run, VersionNumber version);

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_FLEET_H_
