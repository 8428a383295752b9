#include "isthmus/lane/request.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::lane {
namespace {

using testing::ExpectError;

template <typename Action>
void ExpectRefused(const Action& action, const std::string& what) {
  ExpectError(ErrorCode::kInvalid, action, what);
}

Request Asking(const Constraint& constraint) { return {constraint, "", false, {}}; }

Request Turn(const std::string& session, bool pin, std::optional<milliseconds> wait_ms) {
  return {{}, session, pin, wait_ms};
}

void ExpectRefused(const Request& request, const std::string& what) {
  ExpectRefused([&] { Check(request); }, what);
}

TEST(RequestTest, VersionsAreWholeNumbersInDigits) {
  EXPECT_EQ(ParseVersion("min_version", "0"), 0U);
  EXPECT_EQ(ParseVersion("min_version", "9999999999"), board::kMaxVersion);
}

TEST(RequestTest, NegativeHugeAndOtherVersionsAreRefusedWithTheFieldsName) {
  for (const char* text : {"-1", "+1", "", " 1", "1 ", "1.0", "1e3", "0x1", "10000000000",
                           "18446744073709551617", "99999999999999999999999", "null"}) {
    ExpectRefused([&] { ParseVersion("Isthmus-Min-Version", text); },
                  "Isthmus-Min-Version: \"" + std::string(text));
  }
}

TEST(RequestTest, AWrongValueIsRepeatedInPart) {
  ExpectRefused([] { ParseVersion("min_version", std::string(1000, 'x')); },
                "\"" + std::string(40, 'x') + "\"");
}

TEST(RequestTest, ALagIsInVersionsOrInTime) {
  Constraint constraint;
  ParseMaxLag("Isthmus-Max-Lag", "3", &constraint);
  EXPECT_EQ(constraint, (Constraint{{}, {}, 3, {}, ""}));
  constraint = {};
  ParseMaxLag("Isthmus-Max-Lag", "1500ms", &constraint);
  EXPECT_EQ(constraint, (Constraint{{}, {}, {}, milliseconds(1500), ""}));
  constraint = {};
  ParseMaxLag("Isthmus-Max-Lag", "30s", &constraint);
  EXPECT_EQ(constraint, (Constraint{{}, {}, {}, milliseconds(30'000), ""}));
  for (const char* text :
       {"", "s", "ms", "-1s", "1m", "1 s", "1.5s", "31536001s", "31536000001ms"}) {
    ExpectRefused([&] { ParseMaxLag("Isthmus-Max-Lag", text, &constraint); }, "Isthmus-Max-Lag: ");
  }
}

TEST(RequestTest, AWaitIsAtMostAnHour) {
  EXPECT_EQ(ParseWait("Isthmus-Wait-Ms", "0"), milliseconds(0));
  EXPECT_EQ(ParseWait("Isthmus-Wait-Ms", "3600000"), kMaxWait);
  ExpectRefused([] { ParseWait("Isthmus-Wait-Ms", "3600001"); }, "Isthmus-Wait-Ms: ");
}

TEST(RequestTest, BodyAndHeadersMayEachSayAPart) {
  const Constraint body = {41, {}, {}, {}, ""};
  const Constraint headers = {41, {}, 2, {}, "grpo-7"};
  EXPECT_EQ(Merge(body, headers), headers);
  EXPECT_EQ(Merge(headers, body), headers);
  EXPECT_EQ(Merge(body, {}), body);
}

TEST(RequestTest, BodyAndHeadersThatDifferAreRefusedWithTheFieldsName) {
  ExpectRefused([] { Merge({41, {}, {}, {}, ""}, {42, {}, {}, {}, ""}); }, "min_version: ");
  ExpectRefused([] { Merge({{}, 41, {}, {}, ""}, {{}, 42, {}, {}, ""}); }, "exact_version: ");
  ExpectRefused([] { Merge({{}, {}, 1, {}, ""}, {{}, {}, 2, {}, ""}); }, "max_lag: ");
  ExpectRefused(
      [] {
        Merge({{}, {}, {}, milliseconds(1), ""}, {{}, {}, {}, milliseconds(2), ""});
      },
      "max_lag: ");
  ExpectRefused([] { Merge({{}, {}, {}, {}, "a"}, {{}, {}, {}, {}, "b"}); }, "run: ");
}

TEST(RequestTest, AConstraintThatNothingSatisfiesIsRefused) {
  Check(Asking({41, 41, 0, {}, "grpo-7"}));
  ExpectRefused(Asking({42, 41, {}, {}, ""}), "min_version: 42");
  ExpectRefused(Asking({{}, 0, {}, {}, ""}), "exact_version: 0");
  ExpectRefused(Asking({board::kMaxVersion + 1, {}, {}, {}, ""}), "min_version: 10000000000");
  ExpectRefused(Asking({{}, board::kMaxVersion + 1, {}, {}, ""}), "exact_version: 10000000000");
}

TEST(RequestTest, ALagIsOneAndInRange) {
  ExpectRefused(Asking({{}, {}, 1, milliseconds(1), ""}), "max_lag: ");
  ExpectRefused(Asking({{}, {}, board::kMaxVersion + 1, {}, ""}), "max_lag: ");
  ExpectRefused(Asking({{}, {}, {}, milliseconds(-1), ""}), "max_lag: -1 ms");
  ExpectRefused(Asking({{}, {}, {}, kMaxLagTime + milliseconds(1), ""}), "max_lag: ");
}

TEST(RequestTest, NamesAndWaitsAreBounded) {
  ExpectRefused(Asking({{}, {}, {}, {}, "../x"}), "run: ");
  ExpectRefused(Turn(std::string(129, 's'), false, {}), "session: ");
  ExpectRefused(Turn("", true, {}), "session: ");
  ExpectRefused(Turn("", false, milliseconds(-1)), "wait_ms: -1 ms");
  ExpectRefused(Turn("", false, kMaxWait + milliseconds(1)), "wait_ms: ");
}

}  // namespace
}  // namespace isthmus::lane
