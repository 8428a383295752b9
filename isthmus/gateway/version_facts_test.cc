#include "isthmus/gateway/version_facts.h"

#include <gtest/gtest.h>

#include "tests/support/fleet.h"

namespace isthmus::gateway {
namespace {

namespace json = boost::json;

IslandFacts Reporting(std::string id, json::array versions, std::string run = "r") {
  IslandFacts island = MakeIsland(std::move(id), 1, IslandState::kReady, std::move(run));
  Say(island, [&](IslandReport& report) { report.versions = std::move(versions); });
  return island;
}

json::array List(const VersionFacts& facts, uint64_t sequence = 0) {
  return json::parse(facts.ToJson(sequence)).as_array();
}

TEST(VersionFactsTest, TheFirstReportCounts) {
  VersionFacts facts{VersionFactsLimits{}};
  const json::object meta = {{"isthmus.push_p50", "1.5"}, {"isthmus.floor", "1.2"}, {"name", "x"}};
  facts.Record({Reporting("a", {{{"version", 2},
                                 {"patch_bytes", 100},
                                 {"changed", 8},
                                 {"elements", 1'000},
                                 {"created_at", "2026-01-31T09:30:00.250Z"},
                                 {"meta", meta}}}),
                Reporting("b", {{{"version", 2}, {"patch_bytes", 7}}, {{"version", 3}}})},
               {1, 1});
  const json::array versions = List(facts);
  ASSERT_EQ(versions.size(), 2u);
  EXPECT_EQ(json::serialize(versions[0]),
            R"({"run":"r","version":2,"patch_bytes":100,"changed":8,"elements":1000,)"
            R"("created_at":"2026-01-31T09:30:00.250Z",)"
            R"("meta":{"isthmus.push_p50":"1.5","isthmus.floor":"1.2"}})");
  EXPECT_EQ(versions[1].at("patch_bytes"), nullptr);
  EXPECT_TRUE(List(facts, 1).empty());
}

TEST(VersionFactsTest, TheNewestVersionsOfARunAreKept) {
  VersionFacts facts{VersionFactsLimits{.runs = 1, .versions = 2}};
  facts.Record(
      {Reporting("a", {{{"version", 5}}, {{"version", 1}}, {{"version", 9}}, {{"version", 2}}}),
       Reporting("b", {{{"version", 1}}}, "second run")},
      {1, 1});
  const json::array versions = List(facts);
  ASSERT_EQ(versions.size(), 2u);
  EXPECT_EQ(versions[0].at("version"), 5);
  EXPECT_EQ(versions[1].at("version"), 9);
}

TEST(VersionFactsTest, ListsThatGrowAreReadAgain) {
  VersionFacts facts{VersionFactsLimits{}};
  facts.Record({Reporting("a", {{{"version", 1}}})}, {1, 1});
  facts.Record({Reporting("a", {{{"version", 1}}, {{"version", 2}}})}, {2, 2});
  facts.Record({Reporting("a", {{{"version", 2}}, {{"version", 3}}})}, {3, 3});
  facts.Record(
      {Reporting("a", {{{"version", 2}}, {{"version", 3}}}), Reporting("b", {{{"version", 4}}})},
      {4, 4});
  EXPECT_EQ(List(facts).size(), 4u);
  EXPECT_EQ(List(facts, 3).size(), 1u);
  facts.Record({Reporting("a", {{{"version", 2}}, {{"version", 3}}}, "another run")}, {5, 5});
  EXPECT_EQ(List(facts, 4).size(), 2u);
}

TEST(VersionFactsTest, ARunWithoutIslandsIsForgotten) {
  VersionFacts facts{VersionFactsLimits{}};
  facts.Record({Reporting("a", {{{"version", 5}}})}, {1, 1});
  facts.Record({}, {2, 2});
  EXPECT_TRUE(List(facts).empty());
}

TEST(VersionFactsTest, WhatIslandsSayIsHostile) {
  VersionFacts facts{VersionFactsLimits{}};
  json::object meta;
  for (int i = 0; i < 100; ++i) meta[fmt::format("isthmus.{}", i)] = "x";
  meta["isthmus.long"] = std::string(1'000, 'x');
  facts.Record({Reporting("a", {"text",
                                nullptr,
                                {{"version", -1}},
                                {{"version", 1e18}},
                                {{"version", 99'999'999'999}},
                                {{"version", 1},
                                 {"patch_bytes", -7},
                                 {"changed", "many"},
                                 {"created_at", std::string(5'000, '9')},
                                 {"meta", meta}}})},
               {1, 1});
  const json::array versions = List(facts);
  ASSERT_EQ(versions.size(), 1u);
  EXPECT_EQ(versions[0].at("patch_bytes"), nullptr);
  EXPECT_EQ(versions[0].at("changed"), nullptr);
  EXPECT_EQ(versions[0].at("created_at"), nullptr);
  EXPECT_EQ(versions[0].at("meta").as_object().size(), 16u);
}

}  // namespace
}  // namespace isthmus::gateway
