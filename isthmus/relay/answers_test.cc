#include "isthmus/relay/answers.h"

#include <gtest/gtest.h>

#include <set>

namespace isthmus::relay {
namespace {

std::string FieldsOf(const net::ResponseHead& head) {
  std::string text;
  head.headers.AppendTo(&text);
  return text;
}

TEST(AnswersTest, TagsTellBoardsKeysAndSizesApart) {
  const std::set<std::string> tags = {TagOf("b", "k", 1), TagOf("c", "k", 1), TagOf("b", "l", 1),
                                      TagOf("b", "k", 2), TagOfContent(""),   TagOfContent("x")};
  EXPECT_EQ(tags.size(), 6u);
  EXPECT_EQ(TagOf("b", "k", 1), TagOf("b", "k", 1));
  for (const std::string& tag : tags) {
    EXPECT_EQ(tag.size(), 34u);
    EXPECT_TRUE(tag.starts_with('"') && tag.ends_with('"')) << tag;
  }
}

TEST(AnswersTest, AWholeObjectAndAPart) {
  EXPECT_EQ(
      FieldsOf(HeadFor({200, 0, 10}, "runs/r/data/1/a/p", ObjectKind::kImmutable, 10, "\"t\"")),
      "ETag: \"t\"\r\nCache-Control: public, max-age=31536000, immutable\r\n"
      "Accept-Ranges: bytes\r\nContent-Type: application/octet-stream\r\n"
      "Content-Length: 10\r\n");
  EXPECT_EQ(FieldsOf(HeadFor({206, 3, 4}, "runs/r/head.json", ObjectKind::kMutable, 10, "\"t\"")),
            "ETag: \"t\"\r\nCache-Control: no-cache\r\nAccept-Ranges: bytes\r\n"
            "Content-Range: bytes 3-6/10\r\nContent-Type: application/json\r\n"
            "Content-Length: 4\r\n");
}

TEST(AnswersTest, APartThatIsNotThereAndAnObjectThatTheClientHas) {
  const auto none = HeadFor({416, 0, 0}, "runs/r/run.json", ObjectKind::kImmutable, 10, "\"t\"");
  EXPECT_EQ(none.headers.Find("content-range"), "bytes */10");
  EXPECT_EQ(none.headers.Find("content-length"), "0");
  const auto same = HeadFor({304, 0, 0}, "runs/r/run.json", ObjectKind::kImmutable, 10, "\"t\"");
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.headers.Find("etag"), "\"t\"");
  EXPECT_FALSE(same.headers.Find("content-length"));
}

}  // namespace
}  // namespace isthmus::relay
