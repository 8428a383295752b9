#include "isthmus/lane/event_stamp.h"

#include <gtest/gtest.h>

namespace isthmus::lane {
namespace {

constexpr size_t kMaxEventBytes = 4'096;

std::string Stamped(AnswerShape shape, std::string_view stream) {
  std::string out;
  net::SseSplitter splitter(kMaxEventBytes);
  splitter.Feed(
      stream, [&](const net::SseEvent& event) { AppendStamped(event, shape, R"("s":41)", &out); });
  return out.append(splitter.rest());
}

std::string Object(std::string_view stream) { return Stamped(AnswerShape::kObject, stream); }
std::string MetaInfo(std::string_view stream) { return Stamped(AnswerShape::kMetaInfo, stream); }

TEST(EventStampTest, AnObjectIsStamped) {
  EXPECT_EQ(Object("data: {\"a\":1}\n\n"), "data: {\"a\":1,\"s\":41}\n\n");
  EXPECT_EQ(Object("data:{}\r\n\r\n"), "data:{ \"s\":41}\r\n\r\n");
  EXPECT_EQ(Object("data:  {\"a\":{}} \t\r\r"), "data:  {\"a\":{},\"s\":41} \t\r\r");
}

TEST(EventStampTest, MetaInfoIsStamped) {
  EXPECT_EQ(MetaInfo("data: {\"text\":\"x\",\"meta_info\":{\"id\":1}}\n\n"),
            "data: {\"text\":\"x\",\"meta_info\":{\"s\":41,\"id\":1}}\n\n");
  EXPECT_EQ(MetaInfo("data: [{\"meta_info\":{}}]\n\n"), "data: [{\"meta_info\":{\"s\":41}}]\n\n");
  EXPECT_EQ(MetaInfo("data: {\"error\":{}}\n\n"), "data: {\"error\":{}}\n\n");
}

TEST(EventStampTest, OtherLinesStay) {
  EXPECT_EQ(Object(": hi\nevent: x\nid: 7\ndata: {\"a\":1}\nretry: 5\nother\n\n"),
            ": hi\nevent: x\nid: 7\ndata: {\"a\":1,\"s\":41}\nretry: 5\nother\n\n");
  EXPECT_EQ(Object("\xef\xbb\xbf"
                   "data: {\"a\":1}\n\n"),
            "\xef\xbb\xbf"
            "data: {\"a\":1,\"s\":41}\n\n");
  EXPECT_EQ(Object("data: 1\r\r\ndata: {\"a\":1}\r\n\r\n"),
            "data: 1\r\r\ndata: {\"a\":1,\"s\":41}\r\n\r\n");
  EXPECT_EQ(Object("database: {}\ndata: {\"a\":1}\n\n"),
            "database: {}\ndata: {\"a\":1,\"s\":41}\n\n");
}

TEST(EventStampTest, WhatIsNoObjectOnOneLinePassesAsItIs) {
  for (const char* stream :
       {"data: [DONE]\n\n", ": ping\n\n", "\n", "\r\n\r\n", "event: x\n\n", "data\n\n", "data:\n\n",
        "data: {\"a\":\ndata: 1}\n\n", "data: {}\ndata\n\n", "data: {\"a\":1\n\n", "data: 5\n\n",
        "data: \"{}\"\n\n", "data: {} x\n\n", " data: {}\n\n", "Data: {}\n\n", "data : {}\n\n",
        "data: {\"a\":1}\n"}) {
    EXPECT_EQ(Object(stream), stream);
    EXPECT_EQ(MetaInfo(stream), stream);
  }
  EXPECT_EQ(Object("data: [{\"meta_info\":{}}]\n\n"), "data: [{\"meta_info\":{}}]\n\n");
}

}  // namespace
}  // namespace isthmus::lane
