#include "isthmus/lane/refusal.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::lane {
namespace {

Decision Of(Outcome outcome, Reason reason, VersionNumber served) {
  return {7, outcome, reason, served};
}

TEST(RefusalTest, NotReadySaysWhatWasAskedAndWhatIsServed) {
  Constraint asked;
  asked.min_version = 42;
  const Answer answer = RefusalOf(Of(Outcome::kNotReady, Reason::kBehind, 41), asked);
  EXPECT_EQ(answer.head.status, 409);
  EXPECT_TRUE(answer.head.headers.Find("Retry-After"));
  EXPECT_EQ(
      answer.body.find(R"({"type":"WeightVersionNotReady","target_version":42,"applied":41,)"), 0u);
  const Answer plain = RefusalOf(Of(Outcome::kNotReady, Reason::kOtherRun, kNoVersion), {});
  EXPECT_NE(plain.body.find(R"("target_version":null,"applied":null)"), std::string::npos);
}

TEST(RefusalTest, RevokedNamesTheVersionAndIsNotToBeRepeated) {
  Constraint asked;
  asked.exact_version = 40;
  const Answer answer = RefusalOf(Of(Outcome::kRevoked, Reason::kRevoked, 41), asked);
  EXPECT_EQ(answer.head.status, 410);
  EXPECT_FALSE(answer.head.headers.Find("Retry-After"));
  EXPECT_NE(answer.body.find(R"("version":40)"), std::string::npos);
}

TEST(RefusalTest, UnavailableIsRetryable) {
  const Answer answer = RefusalOf(Of(Outcome::kUnavailable, Reason::kPoisoned, kNoVersion), {});
  EXPECT_EQ(answer.head.status, 503);
  EXPECT_EQ(answer.head.headers.Find("Retry-After"), "1");
  EXPECT_EQ(answer.body.find(R"({"error":{"type":"EngineUnavailable","retryable":true,)"), 0u);
}

TEST(RefusalTest, ADeadlineThatIsOverIsNoReasonToRetry) {
  const Answer answer = DeadlineExceeded("too late");
  EXPECT_EQ(answer.head.status, 504);
  EXPECT_FALSE(answer.head.headers.Find("Retry-After"));
  EXPECT_EQ(answer.body, R"({"error":{"type":"DeadlineExceeded","message":"too late"}})");
}

TEST(RefusalTest, AnAdmittedRequestIsNone) {
  isthmus::testing::ExpectError(ErrorCode::kInternal,
                                [] { RefusalOf(Of(Outcome::kAdmitted, Reason::kNone, 1), {}); });
}

TEST(RefusalTest, ABlockedRouteIsShownInPart) {
  const Answer answer = RouteBlocked("POST", "/pause" + std::string(10'000, 'x'));
  EXPECT_EQ(answer.head.status, 403);
  EXPECT_EQ(answer.body.find(R"({"error":{"type":"RouteBlocked","message":"POST /pausexxx)"), 0u);
  EXPECT_LT(answer.body.size(), 500u);
}

}  // namespace
}  // namespace isthmus::lane
