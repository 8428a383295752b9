#include "isthmus/gateway/update_log.h"

#include <gtest/gtest.h>

#include "tests/support/fleet.h"

namespace isthmus::gateway {
namespace {

namespace json = boost::json;

IslandFacts Updated(std::string id, VersionNumber to, double fetch_ms, std::string ended_at = "t") {
  IslandFacts island = MakeIsland(std::move(id), to);
  Say(island, [&](IslandReport& report) {
    report.last_update = {{"kind", "switch"},     {"from", to - 1}, {"to", to},
                          {"ended_at", ended_at}, {"ok", true},     {"fetched_bytes", 500},
                          {"fetch_ms", fetch_ms}, {"closed_ms", 7}, {"paused_ms", 5.26}};
  });
  return island;
}

json::array List(const UpdateLog& log, uint64_t sequence = 0, int64_t from_ms = 0) {
  return json::parse(log.ToJson(sequence, from_ms)).as_array();
}

json::array Summaries(const UpdateLog& log, uint64_t sequence = 0, int64_t from_ms = 0) {
  return json::parse(log.SummariesJson(sequence, from_ms)).as_array();
}

TEST(UpdateLogTest, EachUpdateIsKeptOnce) {
  UpdateLog log{UpdateLimits{}};
  log.Record({Updated("a", 2, 30)}, {1, 1'000});
  log.Record({Updated("a", 2, 30)}, {2, 3'000});
  log.Record({Updated("a", 3, 30)}, {3, 5'000});
  const json::array updates = List(log);
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_EQ(updates[0].at("seen"), 1'000);
  EXPECT_EQ(updates[0].at("to"), 2);
  EXPECT_EQ(updates[1].at("from"), 2);
  EXPECT_EQ(updates[0].at("fetched_bytes"), 500);
  const json::value& milliseconds = updates[0].at("ms");
  EXPECT_EQ(milliseconds.as_array().size(), kPhases.size());
  EXPECT_EQ(milliseconds.at(0), 30);
  EXPECT_EQ(milliseconds.at(12), 7);
  EXPECT_EQ(milliseconds.at(14).to_number<double>(), 5.3);
  EXPECT_EQ(List(log, 2).size(), 1u);
  EXPECT_EQ(List(log, 0, 1'001).size(), 1u);
  EXPECT_TRUE(List(log, 3).empty());
}

TEST(UpdateLogTest, TheNewestAreListed) {
  UpdateLog log{UpdateLimits{.updates = 5, .listed = 3}};
  for (VersionNumber to = 1; to <= 9; ++to) log.Record({Updated("a", to, 1)}, {to, 1});
  EXPECT_EQ(log.size(), 5u);
  const json::array updates = List(log);
  ASSERT_EQ(updates.size(), 3u);
  EXPECT_EQ(updates[0].at("to"), 7);
  EXPECT_EQ(updates[2].at("to"), 9);
}

TEST(UpdateLogTest, SummariesAreMediansOverIslands) {
  UpdateLog log{UpdateLimits{}};
  IslandFacts failed = Updated("c", 2, 1'000);
  Say(failed, [](IslandReport& report) { report.last_update["ok"] = false; });
  log.Record({Updated("a", 2, 10), Updated("b", 2, 20), failed}, {1, 1'000});
  log.Record({Updated("a", 3, 40)}, {2, 3'000});
  const json::array summaries = Summaries(log);
  ASSERT_EQ(summaries.size(), 2u);
  EXPECT_EQ(summaries[0].at("to"), 3);
  EXPECT_EQ(summaries[1].at("updates"), 3);
  EXPECT_EQ(summaries[1].at("failed"), 1);
  EXPECT_EQ(summaries[1].at("ms").at(0).to_number<double>(), 20);
  EXPECT_EQ(Summaries(log, 1).size(), 1u);
  EXPECT_TRUE(Summaries(log, 2).empty());
}

TEST(UpdateLogTest, WhatIslandsSayIsHostile) {
  UpdateLog log{UpdateLimits{}};
  IslandFacts island = MakeIsland("a", 1);
  std::string error(299, 'x');
  for (int i = 0; i < 2'000; ++i) error += "\xC3\xA4";  // two bytes a letter
  Say(island, [&](IslandReport& report) {
    report.last_update = {{"kind", 7},          {"from", -4},
                          {"to", "nine"},       {"ok", "yes"},
                          {"error", error},     {"fetched_bytes", -1},
                          {"fetch_ms", -5},     {"closed_ms", 1e300},
                          {"load_ms", nullptr}, {"ended_at", json::array{}}};
  });
  log.Record({island}, {1, 1});
  const json::array updates = List(log);
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates[0].at("kind").as_string(), "");
  EXPECT_EQ(updates[0].at("from"), 0);
  EXPECT_EQ(updates[0].at("ok"), false);
  EXPECT_EQ(updates[0].at("error").as_string().size(), 299u);
  EXPECT_EQ(updates[0].at("ms").at(0), 0);
  EXPECT_EQ(updates[0].at("ms").at(12).to_number<double>(), 1e9);
}

TEST(UpdateLogTest, IslandsThatAreNotListedAreForgotten) {
  UpdateLog log{UpdateLimits{}};
  log.Record({Updated("a", 2, 1)}, {1, 1});
  log.Record({}, {2, 2});
  log.Record({Updated("a", 2, 1)}, {3, 3});
  EXPECT_EQ(log.size(), 2u);
}

}  // namespace
}  // namespace isthmus::gateway
