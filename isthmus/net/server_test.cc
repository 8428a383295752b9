#include "isthmus/net/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/net.h"

namespace isthmus::net {
namespace {

using isthmus::testing::Pause;
using isthmus::testing::RawSocket;
using isthmus::testing::TestServer;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr std::string_view kLastGet = "GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

// Answers with the method, the target and the body.
Task<void> Echo(Exchange& exchange) {
  std::string text = exchange.request().method + " " + exchange.request().target + " ";
  text += co_await exchange.ReadBody(1 << 20);
  ResponseHead head;
  co_await exchange.Respond(std::move(head), text);
}

size_t CountOf(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ServerTest, OneConnectionServesRequestAfterRequest) {
  TestServer server(Echo);
  RawSocket client(server.port());
  client.Send(kGet);
  EXPECT_EQ(client.ReceiveUntil("GET /a "), "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nGET /a ");
  client.Send("POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_THAT(client.ReceiveUntil("abc"), EndsWith("POST /c abc"));
  client.Send(kLastGet);
  const std::string last = client.ReceiveAll();
  EXPECT_THAT(last, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(last, EndsWith("GET /b "));
  EXPECT_FALSE(client.was_reset());
  EXPECT_EQ(server.counters().connections, 1U);
  EXPECT_EQ(server.counters().requests, 3U);
}

TEST(ServerTest, RequestsSentTogetherAreAnsweredInOrder) {
  TestServer server(Echo);
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += fmt::format("POST /{} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab", i);
  }
  const std::string answers = server.Ask(requests + std::string(kLastGet));
  size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    at = answers.find(fmt::format("POST /{} ab", i), at);
    ASSERT_NE(at, answers.npos) << i;
  }
  EXPECT_THAT(answers, EndsWith("GET /b "));
}

TEST(ServerTest, RequestsMayBeCutAnywhere) {
  TestServer server(Echo);
  const std::string requests[] = {
      "\r\nPOST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world",
      "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello "
      "\r\n5\r\nworld\r\n0\r\n\r\n"};
  RawSocket client(server.port());
  for (const std::string& request : requests) {
    for (size_t cut = 1; cut < request.size(); ++cut) {
      client.Send(request.substr(0, cut));
      client.Send(request.substr(cut));
      ASSERT_THAT(client.ReceiveUntil("world"), EndsWith("\r\n\r\nPOST /c hello world")) << cut;
    }
  }
}

TEST(ServerTest, AnswersWithoutABodyHaveNone) {
  TestServer server([](Exchange& exchange) -> Task<void> {
    ResponseHead head;
    if (exchange.request().target == "/204") head.status = 204;
    if (exchange.request().target == "/304") head.status = 304;
    if (exchange.request().target == "/chunked") {
      exchange.Start(std::move(head));
      co_await exchange.Write("body");
      co_await exchange.Finish("body");
    } else {
      co_await exchange.Respond(std::move(head), "body");
    }
  });
  for (std::string_view line : {"HEAD /", "GET /204", "GET /304", "HEAD /chunked"}) {
    const std::string answer =
        server.Ask(fmt::format("{} HTTP/1.1\r\nHost: x\r\n\r\n{}", line, kLastGet));
    EXPECT_EQ(CountOf(answer, "body"), 1U) << answer;
    EXPECT_EQ(CountOf(answer, "HTTP/1.1 "), 2U) << answer;
  }
  EXPECT_THAT(server.Ask("HEAD / HTTP/1.0\r\n\r\n"), HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(server.Ask("GET /204 HTTP/1.0\r\n\r\n"), Not(HasSubstr("Content-Length")));
}

Task<void> Stream(Exchange& exchange) {
  ResponseHead head;
  head.headers.Add("Connection", "x-odd");
  head.headers.Add("Transfer-Encoding", "gzip");
  exchange.Start(std::move(head));
  co_await exchange.Write("one");
  co_await exchange.Write("");
  co_await exchange.Write("fourteen bytes");
  co_await exchange.Finish("end");
}

TEST(ServerTest, StreamedAnswersAreChunkedOrEndTheConnection) {
  TestServer server(Stream);
  EXPECT_EQ(server.Ask(kLastGet),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            "3\r\none\r\ne\r\nfourteen bytes\r\n3\r\nend\r\n0\r\n\r\n");
  EXPECT_EQ(server.Ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nonefourteen bytesend");
}

TEST(ServerTest, OldClientsKeepTheirConnectionIfTheyAsk) {
  TestServer server(Echo);
  RawSocket client(server.port());
  client.Send("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
  EXPECT_THAT(client.ReceiveUntil("GET / "), HasSubstr("Connection: keep-alive\r\n"));
  client.Send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.ReceiveAll(), EndsWith("GET / "));
}

TEST(ServerTest, WhatCouldSmuggleARequestIsRefusedAndTheConnectionClosed) {
  TestServer server(Echo);
  const std::string_view get = "GET /secret HTTP/1.1\r\nHost: x\r\n\r\n";
  for (std::string_view fields :
       {"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 0\r\nContent-Length: 5\r\n\r\n", "Content-Length: 0, 5\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "Transfer-Encoding: gzip\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "X: a\r\n folded: b\r\n\r\n", "X: a\n\r\n",
        "X: a\n\n", "X: a\rContent-Length: 5\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nG\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n1\r\nab0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0\r\nX : y\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"}) {
    const std::string answer =
        server.Ask(fmt::format("POST / HTTP/1.1\r\nHost: x\r\n{}{}", fields, get));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\n")) << fields;
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    EXPECT_THAT(answer, Not(HasSubstr("secret"))) << fields;
    EXPECT_EQ(CountOf(answer, "HTTP/1.1 "), 1U) << answer;
  }
}

TEST(ServerTest, LargeBodiesAndHeadsAreRefused) {
  ServerOptions options;
  options.limits.body_bytes = 1000;
  options.limits.head_bytes = 2000;
  TestServer server(Echo, std::move(options));
  const std::string large(5000, 'x');
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n";
  EXPECT_THAT(server.Ask(fmt::format("{}Content-Length: 5000\r\n\r\n{}", post, large)),
              StartsWith("HTTP/1.1 413 Content Too Large\r\n"));
  EXPECT_THAT(
      server.Ask(fmt::format("{}Transfer-Encoding: chunked\r\n\r\n1388\r\n{}\r\n", post, large)),
      StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(server.Ask(fmt::format("{}X: {}\r\n\r\n", post, large)), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(server.Ask("GET /" + large), StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(server.counters().refused, 3U);  // the chunked one reached the handler
}

TEST(ServerTest, AHandlersOwnLimitIsA413) {
  TestServer server([](Exchange& exchange) -> Task<void> {
    const std::string body = co_await exchange.ReadBody(3);
    ResponseHead head;
    co_await exchange.Respond(std::move(head), body);
  });
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n";
  EXPECT_THAT(server.Ask(post + "Content-Length: 4\r\n\r\nabcd" + std::string(kLastGet)),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(server.Ask(post + "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n" +
                         std::string(kLastGet)),
              StartsWith("HTTP/1.1 413 "));
}

TEST(ServerTest, AContinueIsSentWhenTheBodyIsWanted) {
  TestServer server([](Exchange& exchange) -> Task<void> {
    if (exchange.request().target == "/no") throw HttpError(403, "no");
    co_await Echo(exchange);
  });
  const std::string fields =
      " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n\r\n";
  RawSocket client(server.port());
  client.Send("POST /yes" + fields);
  EXPECT_EQ(client.ReceiveUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");
  EXPECT_THAT(client.ReceiveUntil("abc"), StartsWith("HTTP/1.1 200 OK"));
  client.Send("POST /eager" + fields + "abc");
  EXPECT_THAT(client.ReceiveUntil("abc"), StartsWith("HTTP/1.1 200 OK"));
  client.Send("POST /no" + fields);
  EXPECT_THAT(client.ReceiveAll(), StartsWith("HTTP/1.1 403 Forbidden"));
  EXPECT_THAT(server.Ask("GET / HTTP/1.1\r\nHost: x\r\nExpect: more\r\n\r\n"),
              StartsWith("HTTP/1.1 417 "));
}

TEST(ServerTest, ErrorsOfHandlersBecomeAnswers) {
  TestServer server([](Exchange& exchange) -> Task<void> {
    const std::string target = exchange.request().target;
    if (target == "/conflict") Throw(ErrorCode::kConflict, "version 3: \"taken\"");
    if (target == "/late") {
      exchange.Start({});
      co_await exchange.Write("part");
      Throw(ErrorCode::kInternal, "too late");
    }
    if (target == "/other") throw std::runtime_error("other");
    if (target == "/cut") exchange.Start({});
  });
  const auto ask = [&](std::string_view target) {
    return server.Ask(fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n\r\n{}", target, kLastGet));
  };
  const std::string conflict = ask("/conflict");
  EXPECT_THAT(conflict, StartsWith("HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\n"));
  EXPECT_THAT(conflict,
              HasSubstr(R"({"error":{"type":"conflict","message":"version 3: \"taken\""}})"));
  EXPECT_EQ(CountOf(conflict, "HTTP/1.1 500 "), 1U) << "the next request is served: " << conflict;
  EXPECT_THAT(ask("/late"), EndsWith("4\r\npart\r\n"));
  EXPECT_THAT(ask("/other"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(ask("/cut"), ::testing::IsEmpty());
}

TEST(ServerTest, ABodyThatNobodyReadIsSkippedOrEndsTheConnection) {
  TestServer server([](Exchange& exchange) -> Task<void> {
    ResponseHead head;
    co_await exchange.Respond(std::move(head), exchange.request().target);
  });
  const auto post = [&](size_t bytes) {
    return server.Ask(fmt::format("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}{}",
                                  bytes, std::string(bytes, 'x'), kLastGet));
  };
  EXPECT_EQ(CountOf(post(10'000), "HTTP/1.1 200"), 2U);
  EXPECT_EQ(CountOf(post(1'000'000), "HTTP/1.1 200"), 1U);
}

ServerOptions Quick() {
  ServerOptions options;
  const Milliseconds quick(80);
  options.limits.head = options.limits.idle = options.limits.body = quick;
  options.limits.stall = options.limits.linger = quick;
  return options;
}

TEST(ServerTest, SlowClientsAreToldAndIdleOnesClosed) {
  TestServer server(Echo, Quick());
  EXPECT_EQ(server.Ask(""), "");
  EXPECT_THAT(server.Ask("GET / HT"), StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  EXPECT_THAT(server.Ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab"),
              StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(server.Ask(kGet), EndsWith("\r\n\r\nGET /a "));
}

TEST(ServerTest, ASlowHeadIsNotKeptAliveByDripping) {
  TestServer server(Echo, Quick());
  RawSocket client(server.port());
  client.Send("GET / HTTP/1.1\r\nX: ");
  ASSERT_TRUE(server.loop().Eventually([&] { return server.server().counters().open == 1; }));
  EXPECT_TRUE(server.loop().Eventually([&] {
    client.Send("x");
    return server.server().counters().open == 0;
  }));
  EXPECT_EQ(server.counters().refused, 1U);
}

TEST(ServerTest, HalfClosedAndResetClientsLeaveNothingBehind) {
  TestServer server(Echo);
  const std::string_view cut = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab";
  for (std::string_view bytes : {std::string_view(), cut.substr(0, 5), cut}) {
    RawSocket half(server.port());
    half.Send(bytes);
    half.EndSending();
    EXPECT_THAT(half.ReceiveAll(), bytes == cut ? StartsWith("HTTP/1.1 400 ") : StartsWith(""));
    RawSocket reset(server.port());
    reset.Send(bytes);
    reset.Reset();
  }
  EXPECT_TRUE(server.loop().Eventually([&] { return server.server().counters().open == 0; }));
  EXPECT_EQ(server.counters().active, 0U);
}

TEST(ServerTest, AClientThatTakesNothingHoldsTheHandlerBack) {
  std::atomic<uint64_t> accepted = 0;
  constexpr uint64_t kPieces = 1000;
  const std::string piece(64 * 1024, 'x');
  TestServer server([&](Exchange& exchange) -> Task<void> {
    ResponseHead head;
    exchange.Start(std::move(head));
    for (uint64_t i = 0; i < kPieces; ++i) {
      co_await exchange.Write(piece);
      accepted += piece.size();
    }
    co_await exchange.Finish();
  });
  RawSocket client(server.port(), 64 * 1024);
  client.Send(kLastGet);
  client.ReceiveUntil("\r\n\r\n");
  // The kernel's buffers fill, then nothing moves: the count stays as it is.
  uint64_t before = 1;
  while (before != accepted) {
    before = accepted;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_LT(accepted, kPieces * piece.size() / 4);
  const std::string rest = client.ReceiveAll();
  EXPECT_EQ(accepted, kPieces * piece.size());
  EXPECT_GT(rest.size(), kPieces * piece.size());
  EXPECT_THAT(rest, EndsWith("\r\n0\r\n\r\n"));
}

TEST(ServerTest, AClientThatTakesNothingForTooLongIsDropped) {
  TestServer server(
      [](Exchange& exchange) -> Task<void> {
        exchange.Start({});
        const std::string piece(1 << 20, 'x');
        for (;;) co_await exchange.Write(piece);
      },
      Quick());
  RawSocket client(server.port());
  client.Send(kGet);
  EXPECT_TRUE(server.loop().Eventually([&] {
    return server.server().counters().requests == 1 && server.server().counters().open == 0;
  }));
}

// Waits for ever; says how it ended.
struct Waiting {
  std::atomic<int> begun = 0;
  std::atomic<int> cancelled = 0;

  Handler handler() {
    return [this](Exchange& exchange) -> Task<void> {
      co_await exchange.ReadBody(1000);
      ++begun;
      try {
        co_await Pause(std::chrono::hours(1));
      } catch (const boost::system::system_error&) {
        ++cancelled;
        EXPECT_TRUE(exchange.disconnected());
        throw;
      }
    };
  }
};

TEST(ServerTest, AClientThatGoesAwayCancelsItsHandler) {
  Waiting waiting;
  TestServer server(waiting.handler());
  const std::string_view post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
  const std::string two = std::string(kGet) + std::string(kGet);
  const std::function<void(RawSocket&)> leaves[] = {&RawSocket::Close, &RawSocket::Reset,
                                                    &RawSocket::EndSending};
  int count = 0;
  const std::string_view requests[] = {kGet, post, two};
  for (std::string_view request : requests) {
    for (const std::function<void(RawSocket&)>& leave : leaves) {
      RawSocket client(server.port());
      client.Send(request);
      ++count;
      ASSERT_TRUE(server.loop().Eventually([&] { return waiting.begun == count; }));
      leave(client);
      ASSERT_TRUE(server.loop().Eventually([&] { return waiting.cancelled == count; }));
    }
  }
  EXPECT_TRUE(server.loop().Eventually([&] { return server.server().counters().open == 0; }));
  EXPECT_EQ(server.counters().disconnected, 9U);
}

TEST(ServerTest, DrainingLetsExchangesFinishAndClosesTheRest) {
  std::atomic<bool> begun = false;
  std::atomic<bool> go = false;
  TestServer server([&](Exchange& exchange) -> Task<void> {
    begun = true;
    while (exchange.request().target == "/a" && !go) co_await Pause(Milliseconds(1));
    ResponseHead head;
    co_await exchange.Respond(std::move(head), "done");
  });
  RawSocket idle(server.port());
  idle.Send("GET /i HTTP/1.1\r\nHost: x\r\n\r\n");
  idle.ReceiveUntil("done");
  RawSocket busy(server.port());
  begun = false;
  busy.Send(kGet);
  ASSERT_TRUE(server.loop().Eventually([&] { return begun.load(); }));
  auto drained =
      server.loop().Spawn([&] { return server.server().Drain(std::chrono::minutes(1)); });
  EXPECT_EQ(idle.ReceiveAll(), "");
  go = true;
  const std::string answer = busy.ReceiveAll();
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer, EndsWith("done"));
  busy.Close();
  drained.get();
  EXPECT_EQ(server.counters().open, 0U);
}

TEST(ServerTest, ADrainEndsAtItsDeadline) {
  ServerOptions options = Quick();
  TestServer server([](Exchange&) -> Task<void> { co_await Pause(std::chrono::hours(1)); },
                    std::move(options));
  RawSocket client(server.port());
  client.Send(kGet);
  ASSERT_TRUE(server.loop().Eventually([&] { return server.server().counters().active == 1; }));
  server.loop().Run([&] { return server.server().Drain(Milliseconds(50)); });
  EXPECT_EQ(server.counters().active, 0U);
  EXPECT_EQ(client.ReceiveAll(), "");
}

TEST(ServerTest, AServerThatGoesClosesWhatRuns) {
  std::optional<TestServer> server;
  server.emplace([](Exchange&) -> Task<void> { co_await Pause(std::chrono::hours(1)); });
  RawSocket client(server->port());
  client.Send(kGet);
  ASSERT_TRUE(server->loop().Eventually([&] { return server->server().counters().active == 1; }));
  server.reset();
  EXPECT_EQ(client.ReceiveAll(), "");
}

TEST(ServerTest, ConnectionsBeyondTheLimitWait) {
  ServerOptions options;
  options.limits.connections = 1;
  TestServer server(Echo, std::move(options));
  RawSocket first(server.port());
  first.Send(kGet);
  first.ReceiveUntil("GET /a ");
  RawSocket second(server.port());
  second.Send(kLastGet);
  EXPECT_EQ(server.counters().open, 1U);
  first.Close();
  EXPECT_THAT(second.ReceiveAll(), EndsWith("GET /b "));
}

TEST(ServerTest, ATakenAddressIsSaid) {
  TestServer server(Echo);
  try {
    ServerOptions options;
    options.port = server.port();
    TestServer other(Echo, std::move(options));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("listen on 127.0.0.1:{}", server.port())));
  }
}

}  // namespace
}  // namespace isthmus::net
