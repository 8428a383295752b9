#include "isthmus/gateway/island_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isthmus/base/error.h"
#include "isthmus/gateway/pool.h"

namespace isthmus::gateway {
namespace {

using testing::HasSubstr;

constexpr std::string_view kInfo = R"({"ready":true,"run":"prod","state":"staging","gate":"ready",
    "applied":41,"target":42,"lag":1,"reason":"","waiting":3,"in_flight":17,
    "board":{"head":43,"newest":42,"read_at":null,"lag_ms_at_most":10,"error":""},
    "engines":[{"name":"vllm"}],
    "versions":[{"version":42,"patch_bytes":10,"changed":5,"elements":100,
                 "created_at":"2026-01-31T09:30:00.250Z","meta":{"step":"7"},"other":[1]}],
    "last_update":{"kind":"switch","to":41,"load_ms":1.5,"nested":{"a":1}}})";

std::string ErrorOf(auto read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalid) << error.what();
    return error.what();
  }
  return "no error";
}

std::string Refusal(const std::string& info) {
  return ErrorOf([&] { ReadReport(std::string_view(info)); });
}

TEST(IslandReportTest, ReadsWhatASidecarSays) {
  const IslandReport report = ReadReport(kInfo);
  EXPECT_EQ(report.run, "prod");
  EXPECT_TRUE(report.ready);
  EXPECT_EQ(report.phase, "staging");
  EXPECT_FALSE(report.gate_closed);
  EXPECT_EQ(report.served, 41U);
  EXPECT_EQ(report.target, 42U);
  EXPECT_EQ(report.head, 42U);  // 43 is revoked
  EXPECT_EQ(report.in_flight, 17U);
  EXPECT_EQ(report.waiting, 3U);
  EXPECT_EQ(report.last_update.at("load_ms").as_double(), 1.5);
  EXPECT_FALSE(report.last_update.contains("nested"));
  ASSERT_EQ(report.versions.size(), 1U);
  EXPECT_FALSE(report.versions[0].as_object().contains("other"));
  EXPECT_EQ(report.versions[0].at("meta").at("step").as_string(), "7");
}

TEST(IslandReportTest, ATargetThatIsServedIsNone) {
  const IslandReport report =
      ReadReport(R"({"ready":true,"run":"r","state":"ready","applied":4,"target":4})");
  EXPECT_EQ(report.target, kNoVersion);
  EXPECT_EQ(report.head, kNoVersion);
}

TEST(IslandReportTest, AnOlderSidecarSaysOnlyTheHead) {
  const IslandReport report = ReadReport(
      R"({"ready":false,"run":"r","state":"committing","gate":"closing","applied":4,"target":5,
          "board":{"head":6}})");
  EXPECT_EQ(report.head, 6U);
  EXPECT_TRUE(report.gate_closed);
}

TEST(IslandReportTest, NamesTheFieldThatIsWrong) {
  EXPECT_THAT(Refusal("[]"), HasSubstr("info"));
  EXPECT_THAT(Refusal("{"), HasSubstr("not JSON"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("info.run"));
  EXPECT_THAT(Refusal(R"({"run":"a/b"})"), HasSubstr("run name"));
  EXPECT_THAT(Refusal(R"({"run":"r","ready":1})"), HasSubstr("info.ready"));
  EXPECT_THAT(Refusal(R"({"run":"r","ready":false,"state":"glorious"})"), HasSubstr("info.state"));
  EXPECT_THAT(Refusal(R"({"run":"r","ready":true,"state":"ready"})"), HasSubstr("info.applied"));
  EXPECT_THAT(Refusal(R"({"run":"r","ready":true,"state":"ready","applied":-1})"),
              HasSubstr("info.applied"));
  EXPECT_THAT(Refusal(R"({"run":"r","ready":true,"state":"ready","applied":10000000000})"),
              HasSubstr("info.applied"));
  EXPECT_THAT(
      Refusal(R"({"run":"r","ready":true,"state":"ready","applied":1,"board":{"head":"x"}})"),
      HasSubstr("info.board.head"));
  EXPECT_THAT(Refusal(std::string(kMaxReportBytes + 1, ' ')), HasSubstr("at most"));
  EXPECT_THAT(Refusal(std::string(1000, '[')), HasSubstr("not JSON"));
}

TEST(IslandReportTest, KeepsOnlyWhatAnHonestSidecarSays) {
  std::string versions;
  for (int i = 0; i < 1000; ++i) versions += R"({"version":1,"x":[[[]]]},)";
  std::string members;
  for (int i = 0; i < 1000; ++i) members += fmt::format(R"("m{}":1,)", i);
  const std::string meta(1100, 'm');
  const IslandReport report = ReadReport(fmt::format(
      R"({{"run":"r","ready":false,"state":"poisoned","reason":"{}","versions":[{}{{"version":"no",
          "meta":{{"a":"{}"}}}}],"last_update":{{{}"end":1}}}})",
      "\u00e4" + std::string(2000, '.'), versions, meta, members));
  EXPECT_LE(report.reason.size(), 1000U);
  EXPECT_EQ(report.versions.size(), 50U);
  EXPECT_EQ(report.last_update.size(), 64U);
  const IslandReport other = ReadReport(fmt::format(
      R"({{"run":"r","ready":false,"state":"poisoned","versions":[7,{{"meta":{{"a":"{}"}}}}]}})",
      meta));
  ASSERT_EQ(other.versions.size(), 1U);
  EXPECT_TRUE(other.versions[0].at("meta").as_object().empty());
}

TEST(IslandReportTest, AReasonDoesNotEndWithinACharacter) {
  std::string reason(999, '.');
  for (int i = 0; i < 10; ++i) reason += "\u00e4";
  const IslandReport report = ReadReport(
      fmt::format(R"({{"run":"r","ready":false,"state":"poisoned","reason":"{}"}})", reason));
  EXPECT_EQ(report.reason, std::string(999, '.'));
}

// What a registration is made of, one member replaced.
std::string RegistrationWith(std::string_view member, std::string_view value) {
  std::string text = "{";
  const std::pair<std::string_view, std::string_view> members[] = {
      {"id", R"("eu-7")"}, {"instance", R"("a1")"},   {"url", R"("http://10.0.0.7:8089")"},
      {"ttl_ms", "10000"}, {"state", R"("serving")"}, {"info", "null"}};
  for (const auto& [name, usual] : members) {
    if (text.size() > 1) text += ',';
    text += fmt::format("\"{}\":{}", name, name == member ? value : usual);
  }
  return text + "}";
}

std::string RegistrationRefusal(std::string_view member, std::string_view value) {
  return ErrorOf([&] { ReadRegistration(RegistrationWith(member, value)); });
}

TEST(RegistrationTest, IsRead) {
  const Registration registration = ReadRegistration(RegistrationWith("info", kInfo));
  EXPECT_EQ(registration.id, "eu-7");
  EXPECT_EQ(registration.instance, "a1");
  EXPECT_EQ(registration.url.Authority(), "10.0.0.7:8089");
  EXPECT_EQ(registration.ttl, milliseconds(10'000));
  EXPECT_FALSE(registration.leaving);
  ASSERT_TRUE(registration.report.has_value());
  EXPECT_EQ(registration.report->served, 41U);
  EXPECT_TRUE(ReadRegistration(RegistrationWith("state", R"("leaving")")).leaving);
  EXPECT_FALSE(ReadRegistration(RegistrationWith("", "")).report.has_value());
  EXPECT_EQ(ReadRegistration(RegistrationWith("url", R"("https://[::1]")")).url.Authority(),
            "[::1]:443");
}

TEST(RegistrationTest, NamesTheFieldThatIsWrong) {
  const std::string huge = fmt::format("\"{}\"", std::string(100'000, 'a'));
  for (const std::string& id :
       {std::string("\"\""), std::string("\".a\""), std::string("\"a b\""), std::string("\"a/b\""),
        std::string("7"), std::string("null"), std::string("[]"), huge}) {
    EXPECT_THAT(RegistrationRefusal("id", id), HasSubstr("id")) << id.substr(0, 40);
    EXPECT_LT(RegistrationRefusal("id", id).size(), 600U);
    EXPECT_THAT(RegistrationRefusal("instance", id), HasSubstr("instance")) << id.substr(0, 40);
  }
  EXPECT_THAT(RegistrationRefusal("instance", fmt::format("\"{}\"", std::string(65, 'a'))),
              HasSubstr("instance"));
  for (const char* url :
       {"\"\"", "\"10.0.0.7:8089\"", "\"ftp://a\"", "\"http://user@a\"", "\"http://u:p@a:80\"",
        "\"http://a/path\"", "\"http://a?q\"", "\"http://a:0\"", "\"http://a:99999\"",
        "\"http://a\\u0000b\"", "\"http://a'b\"", "\"http://\"", "5"}) {
    EXPECT_THAT(RegistrationRefusal("url", url), HasSubstr("url")) << url;
  }
  EXPECT_THAT(RegistrationRefusal("url", huge), HasSubstr("url"));
  for (const char* ttl : {"999", "600001", "-1", "1e4", "\"10000\"", "null"}) {
    EXPECT_THAT(RegistrationRefusal("ttl_ms", ttl), HasSubstr("ttl_ms")) << ttl;
  }
  EXPECT_THAT(RegistrationRefusal("state", "\"ready\""), HasSubstr("state"));
  EXPECT_THAT(RegistrationRefusal("info", "[]"), HasSubstr("info"));
  EXPECT_THAT(RegistrationRefusal("info", R"({"run":"r"})"), HasSubstr("info.ready"));
}

TEST(RegistrationTest, IsBounded) {
  EXPECT_THAT(ErrorOf([] { ReadRegistration(std::string(kMaxRegistrationBytes + 1, ' ')); }),
              HasSubstr("at most"));
  EXPECT_THAT(ErrorOf([] { ReadRegistration(std::string(100'000, '[')); }), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf([] { ReadRegistration(""); }), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf([] { ReadRegistration("\xff"); }), HasSubstr("not JSON"));
}

}  // namespace
}  // namespace isthmus::gateway
