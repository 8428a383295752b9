// What a sidecar says of its island: /server_info, as a gateway reads it. Hostile input. Pure.
#ifndef ISTHMUS_GATEWAY_ISLAND_REPORT_H_
#define ISTHMUS_GATEWAY_ISLAND_REPORT_H_

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
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
  VersionNumber head = kNoVersion;    // the newest version that it has read of and is not revoked
  uint64_t in_flight = 0;             // from all gateways and clients
  uint64_t waiting = 0;
  std::string reason;  // at most 1,000 bytes of it
  // For the dashboard, as they are, but no more of them than an honest sidecar says: what is
  // nested, too long or too many is left out.
  boost::json::object last_update;  // empty if none
  boost::json::array versions;      // facts of recent versions (docs/request-lane.md); may be empty
};

// kInvalid, naming the field: above kMaxReportBytes, no object, a missing or wrong run, state or
// version. Unknown members are ignored.
IslandReport ReadReport(std::string_view server_info);
IslandReport ReadReportOf(const boost::json::value& server_info);

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_ISLAND_REPORT_H_
