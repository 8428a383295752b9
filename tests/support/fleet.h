// Fleets as the pool tells of them, for tests of what is made of that.
#ifndef ISTHMUS_TESTS_SUPPORT_FLEET_H_
#define ISTHMUS_TESTS_SUPPORT_FLEET_H_

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/gateway/pool.h"

namespace isthmus::gateway {

inline IslandFacts MakeIsland(std::string id, VersionNumber served,
                              IslandState state = IslandState::kReady, std::string run = "r") {
  IslandFacts island{};
  island.id = std::move(id);
  island.state = state;
  IslandReport report;
  report.run = std::move(run);
  report.served = served;
  island.report = std::make_shared<const IslandReport>(std::move(report));
  return island;
}

// Changes what an island said last.
template <typename Change>
void Say(IslandFacts& island, const Change& change) {
  IslandReport report = *island.report;
  change(report);
  island.report = std::make_shared<const IslandReport>(std::move(report));
}

// Islands "i0000" and so on, all of run "r" and serving the same.
inline std::vector<IslandFacts> MakeFleet(size_t islands, VersionNumber served) {
  std::vector<IslandFacts> fleet;
  fleet.reserve(islands);
  for (size_t i = 0; i < islands; ++i)
    fleet.push_back(MakeIsland(fmt::format("i{:04}", i), served));
  return fleet;
}

inline boost::json::object JsonObject(std::string_view text) {
  return boost::json::parse(boost::json::string_view(text.data(), text.size())).as_object();
}

}  // namespace isthmus::gateway

#endif  // ISTHMUS_TESTS_SUPPORT_FLEET_H_
