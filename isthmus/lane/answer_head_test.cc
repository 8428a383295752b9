#include "isthmus/lane/answer_head.h"

#include <gtest/gtest.h>

namespace isthmus::lane {
namespace {

net::ResponseHead HeadOf(std::string_view type) {
  net::ResponseHead head;
  head.headers.Add("Content-Type", type);
  return head;
}

TEST(AnswerHeadTest, TypeIsReadWithoutItsParameters) {
  EXPECT_TRUE(IsJson(HeadOf("Application/JSON; charset=utf-8")));
  EXPECT_FALSE(IsJson(HeadOf("application/jsonl")));
  EXPECT_TRUE(IsEventStream(HeadOf("text/event-stream;charset=utf-8")));
  EXPECT_FALSE(IsEventStream({}));
}

}  // namespace
}  // namespace isthmus::lane
