#include "isthmus/gateway/rollout.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <limits>

#include "tests/support/errors.h"

namespace isthmus::gateway {
namespace {

Rollout Full() {
  Rollout rollout;
  rollout.request_id = "r-1";
  rollout.arrived = ParseTime("2026-01-31T09:30:00.250Z");
  rollout.gateway = "gw";
  rollout.run = "math";
  rollout.session = "s";
  rollout.priority = "training";
  rollout.island = "eu-1";
  rollout.route = "/v1/completions";
  rollout.traceparent = "00-1";
  rollout.attempts = 2;
  rollout.version_start = 41;
  rollout.version_end = 42;
  rollout.lag_start = 0;
  rollout.lag_end = 1;
  rollout.queued_ms = 0.5;
  rollout.first_byte_ms = 12.25;
  rollout.total_ms = 1000;
  rollout.streamed = true;
  rollout.request = R"({"prompt":"x"})";
  rollout.answer = R"({"choices":[]})";
  return rollout;
}

TEST(ToLine, HasAllThatIsKnown) {
  EXPECT_EQ(
      ToLine(Full()),
      R"({"id":"r-1","time":"2026-01-31T09:30:00.250Z","gateway":"gw","run":"math","session":"s",)"
      R"("priority":"training","island":"eu-1","route":"/v1/completions","status":200,)"
      R"("version_start":41,"version_end":42,"lag_start":0,"lag_end":1,"queued_ms":0.500,)"
      R"("first_byte_ms":12.250,"total_ms":1000.000,"attempts":2,"traceparent":"00-1",)"
      R"("request":{"prompt":"x"},"streamed":true,"answer":{"choices":[]}})");
}

TEST(ToLine, LeavesOutWhatIsNot) {
  Rollout rollout;
  rollout.request_id = "a";
  rollout.cut = true;
  EXPECT_EQ(ToLine(rollout),
            R"({"id":"a","time":"1970-01-01T00:00:00.000Z","status":200,"queued_ms":0.000,)"
            R"("first_byte_ms":0.000,"total_ms":0.000,"attempts":1,"cut":true})");
}

TEST(ToLine, KeepsDigitsAndOneLine) {
  Rollout rollout = Full();
  rollout.answer = "{\r\n \"logprob\": -0.12345678901234567890123,\n\"text\": \"a\\nb\"}";
  const std::string line = ToLine(rollout);
  EXPECT_EQ(line.find_first_of("\r\n"), std::string::npos);
  EXPECT_NE(line.find(R"("answer":{   "logprob": -0.12345678901234567890123, "text": "a\nb"})"),
            std::string::npos);
}

TEST(ToLine, LeavesOutWhatIsNoJson) {
  for (const std::string_view text :
       {"{", "{} {}", "{}\n{\"id\":\"forged\"}", "\"\xFF\"", "\"a\nb\"", "nonsense", " "}) {
    Rollout rollout = Full();
    rollout.request = text;
    rollout.answer = text;
    const std::string line = ToLine(rollout);
    const auto object = boost::json::parse(line).as_object();
    EXPECT_FALSE(object.contains("request")) << text;
    EXPECT_FALSE(object.contains("answer")) << text;
  }
}

TEST(ToLine, QuotesHostileTexts) {
  Rollout rollout = Full();
  rollout.route = "/v1/\"},\n{\"id\":\"x";
  rollout.island = "a\xFF\x80z";
  rollout.total_ms = std::numeric_limits<double>::quiet_NaN();
  const auto object = boost::json::parse(ToLine(rollout)).as_object();
  EXPECT_EQ(object.at("route"), "/v1/\"},\n{\"id\":\"x");
  EXPECT_EQ(object.at("island"), "az");
  EXPECT_EQ(object.at("total_ms"), 0.0);
}

TEST(ToLine, RefusesIds) {
  for (const std::string& id : {std::string(), std::string("a b"), std::string("a\"b"),
                                std::string("a/b"), std::string(129, 'a')}) {
    Rollout rollout;
    rollout.request_id = id;
    testing::ExpectError(
        ErrorCode::kInvalid, [&] { ToLine(rollout); }, "record rollout");
  }
}

TEST(IdOfLine, IsTheFirstMemberOfALine) {
  EXPECT_EQ(IdOfLine(ToLine(Full())), "r-1");
  for (const std::string_view line : {"", "{", R"({"id":"a)", R"({"id":""})", R"({ "id":"a"})",
                                      R"({"x":1,"id":"a"})", R"({"id":"a\u0041"})"}) {
    EXPECT_EQ(IdOfLine(line), "") << line;
  }
}

}  // namespace
}  // namespace isthmus::gateway
