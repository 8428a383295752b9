#include "isthmus/gateway/fleet.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "tests/support/errors.h"

namespace isthmus::gateway {
namespace {

namespace json = boost::json;
using isthmus::testing::ExpectError;

IslandView ViewOf(IslandState state, VersionNumber served) {
  IslandView view;
  view.run = 0;
  view.state = state;
  view.served = served;
  return view;
}

Snapshot FleetOf(std::vector<IslandView> islands) { return {std::move(islands), {{"r", 43}}}; }

TEST(ReadinessTest, CountsWhoServesOfThoseThatAreThere) {
  const Snapshot fleet =
      FleetOf({ViewOf(IslandState::kReady, 43), ViewOf(IslandState::kStaging, 42),
               ViewOf(IslandState::kCommitting, 43), ViewOf(IslandState::kSuspect, 43),
               ViewOf(IslandState::kGone, 43), ViewOf(IslandState::kDraining, 43)});
  const Readiness readiness = ReadinessOf(fleet, 0, 42);
  EXPECT_EQ(readiness.islands, 4);
  EXPECT_EQ(readiness.serving, 2);
  EXPECT_TRUE(readiness.Satisfies(0.5));
  EXPECT_FALSE(readiness.Satisfies(0.51));
  EXPECT_EQ(ReadinessOf(fleet, 0, 43).serving, 1);
  EXPECT_EQ(ReadinessOf(fleet, 1, 0).islands, 0);
}

TEST(ReadinessTest, AnEmptyFleetIsNotReady) {
  EXPECT_FALSE(ReadinessOf(FleetOf({}), 0, 1).Satisfies(0));
  EXPECT_FALSE(ReadinessOf(FleetOf({ViewOf(IslandState::kReady, kNoVersion)}), 0, 0).Satisfies(0));
}

TEST(ReadyQueryTest, HasDefaultsForAllButTheVersion) {
  const ReadyQuery query = ReadReadyQuery("version=4");
  EXPECT_EQ(query.version, 4);
  EXPECT_EQ(query.fraction, 1);
  EXPECT_EQ(query.timeout, milliseconds(30'000));
  EXPECT_EQ(ReadReadyQuery("fraction=0.9&version=4&timeout_ms=0").timeout, milliseconds(0));
  ExpectError(
      ErrorCode::kInvalid, [] { ReadReadyQuery(""); }, "version");
  ExpectError(
      ErrorCode::kInvalid, [] { ReadReadyQuery("version=1&timeout_ms=600001"); }, "timeout_ms");
  ExpectError(
      ErrorCode::kInvalid, [] { ReadReadyQuery("version=1&fractoin=1"); }, "fractoin");
}

TEST(FleetJsonTest, ShowsVersionsAndIslands) {
  const Snapshot fleet =
      FleetOf({ViewOf(IslandState::kReady, 43), ViewOf(IslandState::kStaging, 42)});
  IslandReport report;
  report.run = "r";
  report.head = 43;
  report.last_update = {{"to", 42}, {"ok", true}, {"fetch_ms", 3.5}};
  IslandFacts facts;
  facts.place = 1;
  facts.id = "b";
  facts.url = {true, "host", 8089};
  facts.source = IslandSource::kListed;
  facts.state = IslandState::kStaging;
  facts.share = 1;
  facts.breaker = "closed";
  facts.failures = 0;
  facts.since_report = milliseconds(120);
  facts.report = std::make_shared<const IslandReport>(report);
  const json::object shown = FleetJson({"g1", WallTime(), 3, 2, 1}, fleet, {facts}, true);
  const json::object& run = shown.at("runs").at(0).as_object();
  EXPECT_EQ(json::serialize(run.at("versions")),
            R"([{"version":43,"islands":1},{"version":42,"islands":1}])");
  EXPECT_EQ(run.at("served").at("fraction_newest").as_double(), 0.5);
  const json::object& island = shown.at("islands").at(0).as_object();
  EXPECT_EQ(island.at("url"), "https://host:8089");
  EXPECT_EQ(island.at("state"), "staging");
  EXPECT_EQ(island.at("lag").to_number<int>(), 1);
  EXPECT_EQ(json::serialize(island.at("last_update")), R"({"to":42,"ok":true})");
}

}  // namespace
}  // namespace isthmus::gateway
