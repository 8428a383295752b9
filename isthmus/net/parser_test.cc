#include "isthmus/net/parser.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/errors.h"

namespace isthmus::net {
namespace {

using isthmus::testing::ExpectError;

constexpr uint64_t kNoLimit = ~uint64_t{0};

// The whole of one message from bytes that come in pieces of `step`.
struct Message {
  RequestHead request;
  ResponseHead response;
  std::string body;
  std::string rest;
  bool done = false;
};

struct How {
  bool request = true;
  bool bodiless = false;
  size_t step = 1 << 20;
  uint64_t max_body_bytes = kNoLimit;
};

Message Parse(std::string_view bytes, const How& how) {
  Message message;
  MessageParser parser;
  HeadScanner scanner;
  std::string buffer;
  bool in_head = true;
  while (!bytes.empty() || !buffer.empty()) {
    const std::string_view piece = bytes.substr(0, how.step);
    buffer.append(piece);
    bytes.remove_prefix(piece.size());
    const size_t before = buffer.size();
    if (in_head) {
      if (const size_t size = scanner.Scan(buffer); size > 0) {
        const std::string head = buffer.substr(0, size);
        if (how.request) parser.ParseRequest(head, how.max_body_bytes, &message.request);
        if (!how.request) parser.ParseResponse(head, how.bodiless, &message.response);
        buffer.erase(0, size);
        in_head = false;
      }
    }
    if (!in_head) {
      const auto decoded =
          parser.Decode({reinterpret_cast<std::byte*>(buffer.data()), buffer.size()});
      message.body += decoded.body;
      buffer.erase(0, decoded.consumed);
      message.done = parser.done();
    }
    if (buffer.size() == before && bytes.empty()) break;
  }
  message.rest = buffer;
  if (!in_head && !message.done) {
    parser.End();
    message.done = parser.done();
  }
  return message;
}

TEST(ParserTest, RequestsAreReadWithFieldsInOrder) {
  const Message message = Parse(
      "POST /v1/x?y=%20 HTTP/1.1\r\nHost: a\r\nX-A:  1 \r\nx-a: 2\r\nContent-Length: "
      "3\r\n\r\nabcNEXT",
      {});
  EXPECT_EQ(message.request.method, "POST");
  EXPECT_EQ(message.request.target, "/v1/x?y=%20");
  std::string fields;
  message.request.headers.AppendTo(&fields);
  EXPECT_EQ(fields, "Host: a\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 3\r\n");
  EXPECT_EQ(message.body, "abc");
  EXPECT_EQ(message.rest, "NEXT");
}

TEST(ParserTest, ChunkedBodiesAreDecodedHoweverTheyAreCut) {
  const std::string_view bytes =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "5\r\nhello\r\n1;a=b;c=\"d\"\r\n \r\n0000A\r\n0123456789\r\n0\r\nX-Trailer: t\r\n\r\nGET";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    const Message message = Parse(bytes, {.step = step});
    ASSERT_EQ(message.body, "hello 0123456789") << step;
    ASSERT_TRUE(message.done);
    ASSERT_EQ(message.rest, "GET");
    ASSERT_FALSE(message.request.headers.Find("x-trailer"));
  }
}

TEST(ParserTest, WhatTwoProgramsCouldReadInTwoWaysIsRefused) {
  const std::string_view get = "GET / HTTP/1.1\r\nHost: a\r\n";
  const std::string_view refused[] = {
      "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
      "Content-Length: 3\r\nContent-Length: 4\r\n",
      "Content-Length: 3\r\nContent-Length: 3\r\n",
      "Content-Length: 3, 3\r\n",
      "Content-Length: +3\r\n",
      "Content-Length: -3\r\n",
      "Content-Length: 0x3\r\n",
      "Content-Length: 3 3\r\n",
      "Content-Length:\r\n",
      "Content-Length: 18446744073709551616\r\n",
      "Transfer-Encoding: gzip, chunked\r\n",
      "Transfer-Encoding: chunked, chunked\r\n",
      "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding: identity\r\n",
      "Transfer-Encoding: xchunked\r\n",
      "Transfer-Encoding: \013chunked\r\n",
      "Transfer-Encoding: chunked;q=1\r\n",
      "Transfer-Encoding:\r\n",
      "Transfer-Encoding : chunked\r\n",
      "Content-Length : 3\r\n",
      "X\t: 3\r\n",
      " X: 3\r\n",
      "X: a\r\n b\r\n",
      "X: a\r\n\tb\r\n",
      "X: a\nY: b\r\n",
      "X: a\n",
      "X: a\rY: b\r\n",
      "X: a\r\r\n",
      "X: a\x01\r\n",
      "X\x80: a\r\n",
      "X\r\n",
      ": a\r\n",
      "Host: b\r\n",
  };
  for (std::string_view fields : refused) {
    const std::string bytes = fmt::format("{}{}\r\nabc", get, fields);
    for (size_t step : {size_t{1}, bytes.size()}) {
      ExpectError(
          ErrorCode::kInvalid, [&] { Parse(bytes, {.step = step}); }, "HTTP ");
      if (::testing::Test::HasFailure()) FAIL() << fields;
    }
  }
}

TEST(ParserTest, RequestLinesAreReadStrictly) {
  for (std::string_view line :
       {"GET /\r\n", "GET  / HTTP/1.1\r\n", "GET / HTTP/1.1 \r\n", "GET / HTTP/2.0\r\n",
        "GET / http/1.1\r\n", "GET /\x7f HTTP/1.1\r\n", "GET / HTTP/1.1\n", "G@T / HTTP/1.1\r\n",
        " GET / HTTP/1.1\r\n", "\x16\x03\x01\r\n", "GET /a b HTTP/1.1\r\n", "GET / HTTP/1.\r\n",
        "\r\n"}) {
    const std::string bytes = fmt::format("{}Host: a\r\n\r\n", line);
    ExpectError(
        ErrorCode::kInvalid, [&] { Parse(bytes, {}); }, "HTTP ");
    if (::testing::Test::HasFailure()) FAIL() << line;
  }
  const auto missing_host = [] { Parse("GET / HTTP/1.1\r\n\r\n", {}); };
  ExpectError(ErrorCode::kInvalid, missing_host, "0 Host fields");
  EXPECT_TRUE(Parse("GET / HTTP/1.0\r\n\r\n", {}).done);
  const auto old_chunked = [] {
    Parse("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", {});
  };
  ExpectError(ErrorCode::kInvalid, old_chunked, "HTTP/1.0");
}

TEST(ParserTest, BadChunksAreRefused) {
  for (std::string_view chunks :
       {"x\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\r\nhelloXX0\r\n\r\n",
        "-1\r\n\r\n", "+1\r\na\r\n", "0x1\r\na\r\n\r\n", " 1\r\na\r\n", "1 a\r\na\r\n",
        "11111111111111111\r\na\r\n", "\r\na\r\n", "ffffffffffffffffff\r\n", "1;=\r\na\r\n",
        "1\r\na\n0\r\n\r\n", "0\r\nX\r\n\r\n", "0\r\nX : 1\r\n\r\n",
        "1\r\na\r\n0\r\nContent-Length: 5\r\n\r\n"}) {
    const std::string bytes =
        fmt::format("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunks);
    for (size_t step : {size_t{1}, bytes.size()}) {
      ExpectError(
          ErrorCode::kInvalid, [&] { Parse(bytes, {.step = step}); }, "HTTP ");
      if (::testing::Test::HasFailure()) FAIL() << chunks;
    }
  }
}

TEST(ParserTest, DamagedMessagesEndInAnErrorOrAMessage) {
  std::mt19937 draw(20260214);
  const std::string_view seeds[] = {
      "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close, x\r\n\r\n"
      "5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n",
      "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n0\r\n\r\n",
      "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nX: \"y, z\"\r\n\r\n0123456789",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n"};
  const std::string_view pieces[] = {"\r", "\n", "\r\n", " ", "\t", ":",   "0",
                                     "f",  ";",  "\"",   ",", "=",  "\x80"};
  size_t whole = 0;
  for (int round = 0; round < 50'000; ++round) {
    const How how{.request = round % 4 < 3, .step = 1 + draw() % 40};
    std::string bytes(seeds[round % 4]);
    for (size_t changes = draw() % 4; changes > 0; --changes) {
      const size_t at = draw() % bytes.size();
      bytes.replace(at, draw() % 3, pieces[draw() % std::size(pieces)]);
    }
    try {
      whole += Parse(bytes, how).done ? 1 : 0;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(whole, 10'000U);
}

TEST(ParserTest, EndlessChunkLinesAreRefused) {
  const std::string bytes = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                            std::string(20000, 'a');
  ExpectError(
      ErrorCode::kInvalid, [&] { Parse(bytes, {.step = 1000}); }, "too long");
}

TEST(ParserTest, BodiesAreBounded) {
  const std::string length = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n";
  const std::string chunked =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n6\r\n123456\r\n5\r\n12345\r\n0\r\n\r\n";
  for (const std::string& bytes : {length, chunked}) {
    try {
      Parse(bytes, {.max_body_bytes = 10});
      FAIL() << bytes;
    } catch (const HttpError& error) {
      EXPECT_EQ(error.status(), 413);
    }
  }
  EXPECT_EQ(Parse(chunked, {.max_body_bytes = 11}).body.size(), 11U);
}

TEST(ParserTest, ResponsesEndAsTheirStatusAndFieldsSay) {
  const How response{.request = false};
  EXPECT_EQ(Parse("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabX", response).rest, "X");
  EXPECT_EQ(Parse("HTTP/1.1 204 No Content\r\n\r\nX", response).rest, "X");
  EXPECT_EQ(Parse("HTTP/1.1 304 \r\nContent-Length: 9\r\n\r\nX", response).rest, "X");
  EXPECT_EQ(Parse("HTTP/1.1 100 Continue\r\n\r\nX", response).rest, "X");
  EXPECT_EQ(
      Parse("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nX", {.request = false, .bodiless = true})
          .rest,
      "X");
  EXPECT_EQ(Parse("HTTP/1.0 200 OK\r\n\r\nto the end", response).body, "to the end");
}

TEST(ParserTest, ResponsesThatAreCutShortOrNotHttpAreErrors) {
  const How response{.request = false};
  for (std::string_view cut :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"}) {
    ExpectError(
        ErrorCode::kUnavailable, [&] { Parse(cut, response); }, "cut short");
  }
  for (std::string_view odd :
       {"SSH-2.0-x\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/3.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\nA: b\n\n", "<html>\r\n\r\n"}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { Parse(odd, response); }, "HTTP ");
  }
}

}  // namespace
}  // namespace isthmus::net
