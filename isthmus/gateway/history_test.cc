#include "isthmus/gateway/history.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/fleet.h"

namespace isthmus::gateway {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A history on a clock of its own, with a sample every 2 s.
class HistoryTest : public ::testing::Test {
 protected:
  void Record(const std::vector<IslandFacts>& fleet, const RequestTotals& totals = {},
              uint64_t in_flight = 0) {
    now_ += History::kInterval;
    GatewayLoad load;
    load.totals = totals;
    load.in_flight = in_flight;
    if (totals.served > 0)
      load.added = Quantiles{.p50 = 0.5, .p99 = static_cast<double>(in_flight)};
    history_.Record(fleet, {{"r", 9}}, load, now_);
  }

  json::object Answer(seconds since = seconds(1'800), std::string after = "") const {
    return JsonObject(history_.Answer({since, std::move(after)}, now_));
  }

  static std::string Cursor(const json::object& answer) {
    return std::string(answer.at("cursor").as_string());
  }

  MonotonicTime now_{seconds(77)};
  History history_{"gw-1", WallTime(milliseconds(1'000'000)), now_};
};

TEST_F(HistoryTest, AnEmptyOneAnswersWithNothing) {
  const json::object answer = Answer();
  EXPECT_EQ(answer.at("gateway").as_string(), "gw-1");
  EXPECT_EQ(answer.at("now"), 1'000'000);
  EXPECT_EQ(answer.at("reset"), true);
  for (const auto* name : {"samples", "timelines", "updates", "update_summaries", "versions"}) {
    EXPECT_TRUE(answer.at(name).as_array().empty()) << name;
  }
}

TEST_F(HistoryTest, ASampleSaysRatesAndFleet) {
  Record(MakeFleet(3, 8));
  Record(MakeFleet(3, 9),
         {.received = 100, .served = 90, .shed = 4, .failed = 1, .retried = 2, .tokens = 5'000}, 7);
  const json::array samples = Answer().at("samples").as_array();
  ASSERT_EQ(samples.size(), 2u);
  const json::value& sample = samples[1];
  EXPECT_EQ(sample.at("t"), 1'004'000);
  EXPECT_EQ(sample.at("requests").at("received"), 50);
  EXPECT_EQ(sample.at("requests").at("served"), 45);
  EXPECT_EQ(sample.at("requests").at("failed").to_number<double>(), 0.5);
  EXPECT_EQ(sample.at("requests").at("tokens"), 2'500);
  EXPECT_EQ(sample.at("in_flight"), 7);
  EXPECT_EQ(sample.at("first_byte_ms"), nullptr);
  EXPECT_EQ(sample.at("added_ms").at(1), 7);
  EXPECT_EQ(json::serialize(sample.at("runs").at(0).at("versions")), "[[9,3]]");
  EXPECT_EQ(json::serialize(samples[0].at("runs").at(0).at("lag")), "[1,1,1]");
}

TEST_F(HistoryTest, ACursorGivesWhatIsNew) {
  Record(MakeFleet(2, 8));
  const json::object first = Answer();
  Record(MakeFleet(2, 8));
  const json::object second = Answer(seconds(1'800), Cursor(first));
  EXPECT_EQ(second.at("reset"), false);
  EXPECT_EQ(second.at("samples").as_array().size(), 1u);
  EXPECT_TRUE(second.at("timelines").as_array().empty());
  const json::object third = Answer(seconds(1'800), Cursor(second));
  EXPECT_TRUE(third.at("samples").as_array().empty());
  EXPECT_EQ(third.at("cursor"), second.at("cursor"));
}

TEST_F(HistoryTest, ACursorOfAnotherGatewayGivesAll) {
  Record(MakeFleet(2, 8));
  for (const auto* cursor : {"gw-2.1", "gw-1.2", "gw-1.x", "gw-1.", "gw-1", "1", "gw-1.-1"}) {
    const json::object answer = Answer(seconds(1'800), cursor);
    EXPECT_EQ(answer.at("reset"), true) << cursor;
    EXPECT_EQ(answer.at("samples").as_array().size(), 1u) << cursor;
  }
}

TEST_F(HistoryTest, ACursorFromTooLongAgoGivesAll) {
  Record(MakeFleet(1, 8));
  const std::string cursor = Cursor(Answer());
  for (int i = 0; i < 900; ++i) Record(MakeFleet(1, 8));
  EXPECT_EQ(Answer(seconds(1'800), cursor).at("reset"), false);
  Record(MakeFleet(1, 8));
  const json::object answer = Answer(seconds(1'800), cursor);
  EXPECT_EQ(answer.at("reset"), true);
  EXPECT_EQ(answer.at("samples").as_array().size(), 900u);
}

TEST_F(HistoryTest, LongWindowsHaveCoarseSamples) {
  for (uint64_t i = 1; i <= 30; ++i) {
    Record(MakeFleet(1, i == 20 ? 2 : 9), {.received = i * 20, .served = i * 20}, i == 17 ? 50 : 3);
  }
  const json::object answer = Answer(seconds(1'801));
  EXPECT_EQ(answer.at("interval_ms"), 30'000);
  const json::array samples = answer.at("samples").as_array();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].at("t"), 1'030'000);
  EXPECT_EQ(samples[1].at("requests").at("received"), 10);
  EXPECT_EQ(samples[0].at("in_flight"), 3);
  EXPECT_EQ(samples[1].at("in_flight"), 50);
  EXPECT_EQ(samples[1].at("added_ms").at(1), 50);
  EXPECT_EQ(json::serialize(samples[1].at("runs").at(0).at("lag")), "[0,7,7]");
  EXPECT_EQ(json::serialize(samples[0].at("runs").at(0).at("lag")), "[0,0,0]");
}

TEST_F(HistoryTest, AWindowBoundsTheSamples) {
  for (int i = 0; i < 20; ++i) Record(MakeFleet(1, 8));
  EXPECT_EQ(Answer(seconds(10)).at("samples").as_array().size(), 6u);
}

TEST_F(HistoryTest, AThousandIslandsThatAllSwitchAreASmallRefresh) {
  std::vector<IslandFacts> fleet = MakeFleet(1'000, 8);
  Record(fleet);
  const std::string cursor = Cursor(Answer());
  for (IslandFacts& island : fleet) {
    Say(island, [](IslandReport& report) {
      report.served = 9;
      report.last_update = {{"kind", "switch"},  {"from", 8},         {"to", 9},
                            {"ok", true},        {"ended_at", "now"}, {"fetch_ms", 1'234.5},
                            {"closed_ms", 777.7}};
    });
  }
  Record(fleet);
  const std::string text = history_.Answer({seconds(1'800), cursor}, now_);
  EXPECT_EQ(JsonObject(text).at("timelines").as_array().size(), 1'000u);
  EXPECT_LT(text.size(), 200'000u);
}

TEST(HistoryQueryTest, ReadsWhatIsAllowed) {
  EXPECT_EQ(ReadHistoryQuery("").since, seconds(1'800));
  const HistoryQuery query = ReadHistoryQuery("after=gw-1.7&since_s=86400");
  EXPECT_EQ(query.since, seconds(86'400));
  EXPECT_EQ(query.after, "gw-1.7");
}

TEST(HistoryQueryTest, RefusesAllElse) {
  for (const std::string& query :
       {std::string("since_s=0"), std::string("since_s=86401"), std::string("since_s="),
        std::string("since_s"), std::string("since_s=1&since_s=1"), std::string("x=1"),
        std::string("&"), std::string("since_s=%31"), "after=" + std::string(201, 'a')}) {
    SCOPED_TRACE(query);
    testing::ExpectError(
        ErrorCode::kInvalid, [&] { ReadHistoryQuery(query); }, "query");
  }
}

}  // namespace
}  // namespace isthmus::gateway
