#include "isthmus/lane/request_headers.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::lane {
namespace {

using isthmus::testing::ExpectError;

net::Headers Of(std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
  net::Headers headers;
  for (const auto& [name, value] : fields) headers.Add(name, value);
  return headers;
}

TEST(RequestHeadersTest, AreReadWhateverTheirCase) {
  const HeaderFields fields = ReadHeaders(Of({{"Host", "a"},
                                              {"isthmus-min-version", "41"},
                                              {"ISTHMUS-EXACT-VERSION", "42"},
                                              {"Isthmus-Max-Lag", "30s"},
                                              {"Isthmus-Run", "grpo-7"},
                                              {"Isthmus-Session", "s1"},
                                              {"Isthmus-Session-Pin", "1"},
                                              {"Isthmus-Wait-Ms", "1500"},
                                              {"Isthmus-Deadline-Ms", "86400000"},
                                              {"isthmus-priority", "evaluation"},
                                              {"Isthmus-Request-Id", "rollout-7.A_b"},
                                              {"Isthmus-Version-Spans", "1"}}));
  EXPECT_EQ(fields.deadline, kMaxDeadline);
  EXPECT_EQ(fields.priority, Priority::kEvaluation);
  EXPECT_EQ(fields.request_id, "rollout-7.A_b");
  EXPECT_EQ(fields.request.constraint,
            (Constraint{41, 42, std::nullopt, milliseconds(30'000), "grpo-7"}));
  EXPECT_EQ(fields.request.session, "s1");
  EXPECT_TRUE(fields.request.pin_session);
  EXPECT_EQ(fields.request.wait_ms, milliseconds(1500));
  EXPECT_TRUE(fields.spans);
}

TEST(RequestHeadersTest, NoneAskForNothing) {
  const HeaderFields fields = ReadHeaders(Of({{"Host", "a"}, {"X-Isthmus-Run", "r"}}));
  EXPECT_EQ(fields.request.constraint, Constraint());
  EXPECT_FALSE(fields.request.wait_ms);
  EXPECT_FALSE(fields.spans);
  EXPECT_FALSE(fields.deadline);
  EXPECT_EQ(fields.priority, Priority::kTraining);
  EXPECT_EQ(fields.request_id, "");
}

TEST(RequestHeadersTest, WhatIsMalformedUnknownOrTwiceThereIsNamed) {
  const auto refuse =
      [](std::initializer_list<std::pair<std::string_view, std::string_view>> fields,
         std::string_view what) {
        ExpectError(
            ErrorCode::kInvalid, [&] { ReadHeaders(Of(fields)); }, what);
      };
  refuse({{"Isthmus-Min-Version", "-1"}}, "Isthmus-Min-Version");
  refuse({{"Isthmus-Min-Version", "99999999999"}}, "Isthmus-Min-Version");
  refuse({{"Isthmus-Exact-Version", "1e3"}}, "Isthmus-Exact-Version");
  refuse({{"Isthmus-Max-Lag", "soon"}}, "Isthmus-Max-Lag");
  refuse({{"Isthmus-Wait-Ms", ""}}, "Isthmus-Wait-Ms");
  refuse({{"Isthmus-Session-Pin", "yes"}}, "Isthmus-Session-Pin");
  refuse({{"Isthmus-Version-Spans", "true"}}, "Isthmus-Version-Spans");
  for (const char* deadline : {"0", "86400001", "-1", "1.5", "1s", ""}) {
    refuse({{"Isthmus-Deadline-Ms", deadline}}, "Isthmus-Deadline-Ms");
  }
  for (const char* priority : {"", "high", "Training", "0"}) {
    refuse({{"Isthmus-Priority", priority}}, "Isthmus-Priority");
  }
  refuse({{"Isthmus-Request-Id", ""}}, "Isthmus-Request-Id");
  refuse({{"Isthmus-Request-Id", "a b"}}, "Isthmus-Request-Id");
  refuse({{"Isthmus-Request-Id", std::string(129, 'a')}}, "Isthmus-Request-Id");
  refuse({{"Isthmus-Run", ""}}, "Isthmus-Run");
  refuse({{"Isthmus-Run", "r"}, {"Connection", "close, isthmus-run"}}, "named by Connection");
  refuse({{"Isthmus-Session", ""}}, "Isthmus-Session");
  refuse({{"Isthmus-Min-Verson", "4"}}, "Isthmus-Min-Verson: unknown");
  refuse({{"isthmus-min-version", "4"}, {"Isthmus-Min-Version", "4"}},
         "Isthmus-Min-Version: given");
}

TEST(RequestHeadersTest, AreRemovedInEveryCase) {
  net::Headers headers =
      Of({{"isthmus-run", "r"}, {"Host", "a"}, {"Isthmus-Anything", "1"}, {"ISTHMUS-RUN", "q"}});
  RemoveIsthmusFields(&headers);
  ASSERT_EQ(headers.size(), 1u);
  EXPECT_EQ(headers[0].name, "Host");
}

}  // namespace
}  // namespace isthmus::lane
