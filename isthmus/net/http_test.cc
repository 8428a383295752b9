#include "isthmus/net/http.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::net {
namespace {

using isthmus::testing::ExpectError;

std::string Text(const Headers& headers) {
  std::string text;
  headers.AppendTo(&text);
  return text;
}

TEST(HeadersTest, OrderDuplicatesAndRawValuesAreKept) {
  Headers headers;
  headers.Add("X-B", "2");
  headers.Add("x-a", "a, \"b\" ");
  headers.Add("X-B", "1");
  EXPECT_EQ(Text(headers), "X-B: 2\r\nx-a: a, \"b\" \r\nX-B: 1\r\n");
  EXPECT_EQ(headers.Find("x-b"), "2");
  EXPECT_EQ(headers.Count("x-B"), 2U);
  EXPECT_FALSE(headers.Find("x"));
}

TEST(HeadersTest, SetReplacesAllOfAName) {
  Headers headers;
  headers.Add("A", "1");
  headers.Add("B", "2");
  headers.Add("a", "3");
  headers.Set("A", "4");
  EXPECT_EQ(Text(headers), "B: 2\r\nA: 4\r\n");
  EXPECT_EQ(headers.Remove("b"), 1U);
  EXPECT_EQ(headers.Remove("b"), 0U);
}

TEST(HeadersTest, NothingThatWouldSplitAHeadIsTaken) {
  Headers headers;
  for (const std::string& value : {std::string("a\r\nX: y"), std::string("a\nb"),
                                   std::string("a\rb"), std::string("a\0b", 3)}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { headers.Add("A", value); }, "header A");
  }
  for (std::string_view name : {"", "A:", "A B", "A\r\n", "\xc3\xa4"}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { headers.Add(name, "x"); }, "not a token");
  }
  EXPECT_TRUE(headers.empty());
}

TEST(HeadersTest, TokensAreFoundInListsOverSeveralLines) {
  Headers headers;
  headers.Add("Connection", "foo , Keep-Alive");
  headers.Add("connection", "bar");
  EXPECT_TRUE(headers.HasToken("connection", "keep-alive"));
  EXPECT_TRUE(headers.HasToken("Connection", "BAR"));
  EXPECT_FALSE(headers.HasToken("connection", "keep"));
}

TEST(HeadersTest, HopByHopFieldsGoAndNamedOnesWithThem) {
  Headers headers;
  for (std::string_view name : {"Host", "X-Mine", "Keep-Alive", "TE", "Trailer", "Upgrade",
                                "Transfer-Encoding", "Proxy-Connection", "Content-Length"}) {
    headers.Add(name, "1");
  }
  headers.Add("Connection", "close, x-mine");
  headers.Add("Connection", "Content-Length");
  RemoveHopByHop(&headers);
  EXPECT_EQ(Text(headers), "Host: 1\r\nContent-Length: 1\r\n");
}

TEST(StatusTest, EveryCodeHasAStatusAndStatusesHaveNames) {
  EXPECT_EQ(StatusOf(ErrorCode::kConflict), 409);
  EXPECT_EQ(StatusReason(431), "Request Header Fields Too Large");
  EXPECT_EQ(StatusReason(299), "Unknown");
  EXPECT_EQ(StatusReason(999), "Unknown");
  EXPECT_EQ(HttpError(413, "x").code(), ErrorCode::kInvalid);
  EXPECT_EQ(HttpError(504, "x").code(), ErrorCode::kUnavailable);
}

TEST(OriginTest, UrlsOfOriginsAreRead) {
  EXPECT_EQ(Origin::Parse("http://engine"), (Origin{false, "engine", 80}));
  EXPECT_EQ(Origin::Parse("https://engine/"), (Origin{true, "engine", 443}));
  EXPECT_EQ(Origin::Parse("http://127.0.0.1:8000"), (Origin{false, "127.0.0.1", 8000}));
  EXPECT_EQ(Origin::Parse("http://[::1]:8000").Authority(), "[::1]:8000");
}

TEST(OriginTest, AnythingElseIsRefused) {
  for (std::string_view url : {"engine:80", "ftp://x", "http://", "http://:80", "http://x:0",
                               "http://x:70000", "http://x:8a", "http://x/y", "http://x?y",
                               "http://a@b", "http://[::1", "http://[::1]x", "http://x:"}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { Origin::Parse(url); }, std::string(url));
  }
}

}  // namespace
}  // namespace isthmus::net
