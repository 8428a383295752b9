// What a sidecar says of its island: /server_info, as a gateway reads it. Hostile input. Pure.
#ifndef ISTHMUS_GATEWAY_ISLAND_REPORT_H_
#define ISTHMUS_GATEWAY_ISLAND_REPORT_H_

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "isthmus/gateway/snapshot.h"

namespace isthmus::gateway {

inline constexpr size_t kMaxReportBytes = size_t{256} << 10;

struct IslandReport {
  std::string run;
  bool ready = false;
  // "booting", "catching-up", "ready", "staging", "committing", "poisoned", "reseeding", "stopped".
  std::string phase;
  bool gate_closed = false;  // for a switch that is under way
  VersionNumber served = kNoVersion;
  VersionNumber target = kNoVersion;  // above or below served; kNoVersion if it is the one served
  VersionNumber head = kNoVersion;    // the newest version that the sidecar has read of
  uint64_t in_flight = 0;             // from all gateways and clients
  uint64_t waiting = 0;
  std::string reason;               // at most 1,000 bytes of it
  boost::json::object last_update;  // as it is, for the dashboard; empty if none
  boost::json::array versions;      // facts of recent versions (docs/request-lane.md); may be empty
};

// kInvalid, naming the field: no object, a missing or wrong run, state or version. Unknown members
// are ignored.
IslandReport ReadReport(std::string_view server_info);
IslandReport ReadReport(const boost::json::object& server_info);

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_ISLAND_REPORT_H_
