#include "isthmus/store/content_range.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::store {
namespace {

using testing::ExpectError;

TEST(ContentRangeTest, IsReadExactly) {
  const auto range = ParseContentRange("bytes 10-19/100");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 10u);
  EXPECT_EQ(range->length, 10u);
  EXPECT_EQ(range->total, 100u);
  EXPECT_TRUE(ParseContentRange("bytes 0-0/1"));
}

TEST(ContentRangeTest, OtherFormsAndImpossibleRangesAreNone) {
  for (const char* bad :
       {"", "bytes", "bytes */100", "bytes 10-9/100", "bytes 0-100/100", "bytes 0-9/*",
        "bytes -9/10", "bytes 0-/10", "items 0-9/10", "bytes 0-9", "bytes 0/9-10", "bytes 0-9/10 ",
        "bytes +0-9/10", "bytes 0-18446744073709551615/18446744073709551616",
        "bytes 0-9223372036854775807/1"}) {
    EXPECT_FALSE(ParseContentRange(bad)) << bad;
  }
}

HttpAnswer Answer(int status, HttpHeaders headers) {
  HttpAnswer answer;
  answer.status = status;
  answer.headers = std::move(headers);
  return answer;
}

TEST(ContentRangeTest, AnAnswerSaysWhatItCarries) {
  EXPECT_EQ(RangeOf(Answer(200, {{"content-length", "7"}}))->total, 7u);
  EXPECT_FALSE(RangeOf(Answer(200, {})));
  EXPECT_FALSE(RangeOf(Answer(200, {{"content-length", "9999999999999999999999"}})));
  EXPECT_EQ(
      RangeOf(Answer(206, {{"content-range", "bytes 2-3/9"}, {"content-length", "2"}}))->first, 2u);
}

TEST(ContentRangeTest, AnAnswerThatContradictsItselfIsCorrupt) {
  ExpectError(ErrorCode::kCorrupt, [] { RangeOf(Answer(206, {{"content-length", "2"}})); });
  ExpectError(
      ErrorCode::kCorrupt,
      [] {
        RangeOf(Answer(206, {{"content-range", "bytes 2-3/9"}, {"content-length", "3"}}));
      },
      "bytes 2-3/9");
}

}  // namespace
}  // namespace isthmus::store
