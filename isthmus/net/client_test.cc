#include "isthmus/net/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/net.h"

namespace isthmus::net {
namespace {

using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;
using isthmus::testing::Pending;
using isthmus::testing::RawListener;
using isthmus::testing::RawSocket;
using isthmus::testing::TestServer;
using ::testing::EndsWith;

Task<void> Echo(Exchange& exchange) {
  const std::string body = co_await exchange.ReadBody(100 << 20);
  ResponseHead head;
  head.headers.Add("X-Method", exchange.request().method);
  co_await exchange.Respond(std::move(head), body);
}

RequestHead Head(std::string_view method) {
  RequestHead head;
  head.method = method;
  return head;
}

// A client on a loop of its own.
class ClientTest : public ::testing::Test {
 public:
  ~ClientTest() override {
    loop_.Do([&] { client_.reset(); });
  }

 protected:
  explicit ClientTest(ClientLimits limits = {}) {
    loop_.Do([&] { client_.emplace(loop_.loop(), limits); });
  }
  // Sends a request; "STATUS BODY" of its answer, which the test may still have to give.
  Pending<std::string> Start(const Origin& origin, std::string_view method,
                             Replay replay = Replay::kIfIdempotent, std::string body = {}) {
    return loop_.Spawn(
        [this, origin, head = Head(method), replay, body = std::move(body)]() -> Task<std::string> {
          Call call = co_await client_->Send(origin, head, body, replay);
          std::string answer = fmt::format("{} ", call.head().status);
          answer += co_await call.ReadBody(100 << 20);
          co_return answer;
        });
  }
  std::string Ask(const Origin& origin, std::string_view method, std::string body = {}) {
    return Start(origin, method, Replay::kIfIdempotent, std::move(body)).get();
  }
  ClientCounters counters() {
    return loop_.Do([&] { return client_->counters(); });
  }

  LoopThread loop_;
  std::optional<Client> client_;
};

TEST_F(ClientTest, OneConnectionIsUsedAgainAndAgain) {
  TestServer server(Echo);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Ask(server.origin(), "POST", "hello"), "200 hello");
    EXPECT_EQ(Ask(server.origin(), "GET"), "200 ");
    EXPECT_EQ(Ask(server.origin(), "HEAD"), "200 ");
  }
  EXPECT_EQ(counters().connects, 1U);
  EXPECT_EQ(counters().reuses, 29U);
  EXPECT_EQ(server.counters().connections, 1U);
}

TEST_F(ClientTest, BodiesAreStreamedBothWays) {
  TestServer server([](Exchange& exchange) -> Task<void> {
    EXPECT_FALSE(exchange.request_bytes());
    exchange.Start({});
    for (;;) {
      const std::string_view piece = co_await exchange.ReadPiece();
      if (piece.empty()) break;
      co_await exchange.Write(piece);
    }
    co_await exchange.Finish();
  });
  const std::string answer = loop_.Run([&]() -> Task<std::string> {
    const Origin origin = server.origin();
    Call call = co_await client_->Begin(origin, Head("POST"), std::nullopt);
    co_await call.Write("one ");
    co_await call.Write("two ");
    co_await call.Finish("three");
    std::string body = co_await call.ReadBody(100);
    co_return body;
  });
  EXPECT_EQ(answer, "one two three");
}

TEST_F(ClientTest, LargeAnswersComeInBoundedPieces) {
  TestServer server(Echo);
  std::string large(20 << 20, 'x');
  for (size_t i = 0; i < large.size(); i += 97) large[i] = static_cast<char>('a' + i % 26);
  loop_.Run([&]() -> Task<void> {
    const Origin origin = server.origin();
    Call call = co_await client_->Send(origin, Head("POST"), large);
    std::string body;
    while (!call.done()) {
      const std::string_view piece = co_await call.ReadPiece();
      EXPECT_LE(piece.size(), ClientLimits().piece_bytes);
      body += piece;
    }
    EXPECT_TRUE(body == large);
  });
}

TEST_F(ClientTest, ARequestSaysWhatItMust) {
  RawListener listener;
  const auto receive = [&](std::string_view method) {
    auto answer = Start(listener.origin(), method, Replay::kNever, method == "POST" ? "body" : "");
    RawSocket peer = listener.Accept();
    std::string request = peer.ReceiveUntil(method == "POST" ? "body" : "\r\n\r\n");
    peer.Send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(answer.get(), "204 ");
    return request;
  };
  const std::string host = fmt::format("Host: {}\r\n", listener.origin().Authority());
  EXPECT_EQ(receive("GET"), fmt::format("GET / HTTP/1.1\r\n{}\r\n", host));
  EXPECT_EQ(receive("POST"),
            fmt::format("POST / HTTP/1.1\r\n{}Content-Length: 4\r\n\r\nbody", host));
}

TEST_F(ClientTest, AnswersMayBeCutAnywhereAndInterimOnesAreSkipped) {
  RawListener listener;
  const std::string bytes =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  std::optional<RawSocket> peer;
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    auto answer = Start(listener.origin(), "GET");
    if (!peer) peer.emplace(listener.Accept());
    peer->ReceiveUntil("\r\n\r\n");
    peer->Send(bytes.substr(0, cut));
    peer->Send(bytes.substr(cut));
    ASSERT_EQ(answer.get(), "200 abcde") << cut;
  }
  EXPECT_EQ(counters().connects, 1U);
}

TEST_F(ClientTest, AnswersThatAreNotHttpOrCutShortAreErrorsThatSaySo) {
  RawListener listener;
  const auto answer_with = [&](std::string_view bytes, ErrorCode code, std::string_view message) {
    auto answer = Start(listener.origin(), "GET");
    RawSocket peer = listener.Accept();
    peer.ReceiveUntil("\r\n\r\n");
    peer.Send(bytes);
    peer.Close();
    ExpectError(
        code, [&] { answer.get(); }, std::string(message), listener.origin().Authority());
  };
  using enum ErrorCode;
  answer_with("SSH-2.0-OpenSSH\r\n\r\n", kCorrupt, "is not HTTP");
  answer_with("HTTP/1.1 200 OK\nA: b\n\n", kCorrupt, "is not HTTP");
  answer_with("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", kCorrupt,
              "is not HTTP");
  answer_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", kCorrupt, "is not HTTP");
  answer_with("HTTP/1.1 101 Switching\r\n\r\n", kCorrupt, "switches protocols");
  answer_with("HTTP/1.1 200 OK\r\nX: " + std::string(70'000, 'x'), kCorrupt,
              "more than 65536 bytes");
  answer_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", kCorrupt, "bad chunk");
  answer_with("", kUnavailable, "ended before it");
  answer_with("HTTP/1.1 200", kUnavailable, "ended in its head");
  answer_with("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", kUnavailable, "cut short");
  answer_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
              kUnavailable, "cut short");
}

TEST_F(ClientTest, AnswersWithoutALengthEndWithTheConnection) {
  RawListener listener;
  auto answer = Start(listener.origin(), "GET");
  {
    RawSocket peer = listener.Accept();
    peer.ReceiveUntil("\r\n\r\n");
    peer.Send("HTTP/1.1 200 OK\r\n\r\nto the end");
  }
  EXPECT_EQ(answer.get(), "200 to the end");
  auto next = Start(listener.origin(), "GET");
  RawSocket peer = listener.Accept();
  peer.Send("HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_EQ(next.get(), "204 ");
}

// A server that answers once, reads the next request, sends `last` and hangs up; what comes of the
// second request.
Pending<std::string> AnswerOnceThenHangUp(const RawListener& listener, std::string_view last,
                                          Pending<std::string> first,
                                          const std::function<Pending<std::string>()>& next) {
  RawSocket peer = listener.Accept();
  peer.ReceiveUntil("\r\n\r\n");
  peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
  EXPECT_EQ(first.get(), "200 1");
  Pending<std::string> second = next();
  peer.ReceiveUntil("\r\n\r\n");
  peer.Send(last);
  return second;
}

TEST_F(ClientTest, AStaleConnectionIsTriedOnceMoreOnlyIfThatDoesNoHarm) {
  struct Case {
    std::string method;
    Replay replay;
    bool again;
  };
  for (const Case& one :
       {Case{"GET", Replay::kIfIdempotent, true}, Case{"GET", Replay::kNever, false},
        Case{"POST", Replay::kIfIdempotent, false}, Case{"POST", Replay::kAlways, true}}) {
    RawListener listener;
    auto second = AnswerOnceThenHangUp(listener, "", Start(listener.origin(), "GET"), [&] {
      return Start(listener.origin(), one.method, one.replay);
    });
    if (!one.again) {
      ExpectError(
          ErrorCode::kUnavailable, [&] { second.get(); }, "answer of");
      continue;
    }
    // The second connection hangs up as well: there is no third.
    listener.Accept().ReceiveUntil("\r\n\r\n");
    ExpectError(
        ErrorCode::kUnavailable, [&] { second.get(); }, "answer of");
  }
  EXPECT_EQ(counters().retries, 2U);
}

TEST_F(ClientTest, NothingIsSentAgainOnceAByteOfAnAnswerCame) {
  RawListener listener;
  auto second = AnswerOnceThenHangUp(listener, "H", Start(listener.origin(), "GET"),
                                     [&] { return Start(listener.origin(), "GET"); });
  ExpectError(
      ErrorCode::kUnavailable, [&] { second.get(); }, "in its head");
  EXPECT_EQ(counters().retries, 0U);
}

TEST_F(ClientTest, AnUnusedConnectionThatItsServerClosesIsForgotten) {
  TestServer server(Echo);
  EXPECT_EQ(Ask(server.origin(), "GET"), "200 ");
  EXPECT_EQ(counters().unused, 1U);
  server.loop().Run([&] { return server.server().Drain(Milliseconds(1000)); });
  EXPECT_TRUE(loop_.Eventually([&] { return client_->counters().unused == 0; }));
  ExpectError(
      ErrorCode::kUnavailable, [&] { Ask(server.origin(), "GET"); }, "connect to");
  EXPECT_EQ(counters().reuses, 0U);
}

TEST_F(ClientTest, BytesThatNobodyAskedForEndAConnection) {
  RawListener listener;
  auto first = Start(listener.origin(), "GET");
  RawSocket peer = listener.Accept();
  peer.ReceiveUntil("\r\n\r\n");
  peer.Send(
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1HTTP/1.1 200 OK\r\nContent-Length: "
      "6\r\n\r\nforged");
  EXPECT_EQ(first.get(), "200 1");
  EXPECT_EQ(peer.ReceiveAll(), "");
}

TEST_F(ClientTest, NobodyListeningIsSaid) {
  std::optional<RawListener> listener(std::in_place);
  const Origin gone = listener->origin();
  listener.reset();
  ExpectError(
      ErrorCode::kUnavailable, [&] { Ask(gone, "GET"); }, "connect to 127.0.0.1:", "refused");
  ExpectError(
      ErrorCode::kUnavailable,
      [&] {
        Ask({false, "no-such-host.invalid", 80}, "GET");
      },
      "no-such-host.invalid");
}

TEST_F(ClientTest, ADestroyedCallClosesItsConnection) {
  RawListener listener;
  auto head = loop_.Spawn([&]() -> Task<int> {
    const Origin origin = listener.origin();
    Call call = co_await client_->Send(origin, Head("GET"));
    const std::string piece(co_await call.ReadPiece());
    EXPECT_EQ(piece, "abc");
    co_return call.head().status;
  });
  RawSocket peer = listener.Accept();
  peer.ReceiveUntil("\r\n\r\n");
  peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc");
  EXPECT_EQ(head.get(), 200);
  EXPECT_EQ(peer.ReceiveAll(), "");
}

TEST_F(ClientTest, ALoopThatEndsTakesWaitingCallsWithIt) {
  RawListener listener;
  LoopThread loop;
  Client client(loop.loop(), {});
  auto never = loop.Spawn([&]() -> Task<void> {
    const Origin origin = listener.origin();
    Call call = co_await client.Send(origin, Head("GET"));
  });
  RawSocket peer = listener.Accept();
  peer.ReceiveUntil("\r\n\r\n");
}

TEST_F(ClientTest, AnEarlyAnswerIsReadThoughTheServerTakesNoMore) {
  TestServer server([](Exchange&) -> Task<void> {
    throw HttpError(403, "no");
    co_return;
  });
  const int status = loop_.Run([&]() -> Task<int> {
    const std::string piece(1 << 20, 'x');
    const Origin origin = server.origin();
    Call call = co_await client_->Begin(origin, Head("POST"), std::nullopt);
    for (int i = 0; i < 30; ++i) co_await call.Write(piece);
    co_await call.Finish();
    co_return call.head().status;
  });
  EXPECT_EQ(status, 403);
}

ClientLimits Quick() {
  ClientLimits limits;
  limits.connect = limits.first_byte = limits.idle = limits.pooled = Milliseconds(80);
  return limits;
}

class QuickClientTest : public ClientTest {
 protected:
  QuickClientTest() : ClientTest(Quick()) {}
};

TEST_F(QuickClientTest, SlowServersAreErrorsThatSaySo) {
  RawListener listener;
  for (std::string_view bytes :
       {"", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"}) {
    auto answer = Start(listener.origin(), "GET");
    RawSocket peer = listener.Accept();
    peer.ReceiveUntil("\r\n\r\n");
    peer.Send(bytes);
    ExpectError(
        ErrorCode::kUnavailable, [&] { answer.get(); }, "in time");
  }
}

TEST_F(QuickClientTest, UnusedConnectionsAreClosedAfterAWhile) {
  RawListener listener;
  auto answer = Start(listener.origin(), "GET");
  RawSocket peer = listener.Accept();
  peer.ReceiveUntil("\r\n\r\n");
  peer.Send("HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_EQ(answer.get(), "204 ");
  EXPECT_EQ(peer.ReceiveAll(), "");
}

// What a proxy is: a handler that passes a call's pieces on.
class ProxyTest : public ::testing::Test {
 public:
  ~ProxyTest() override {
    proxy_->loop().Do([&] { client_.reset(); });
  }

 protected:
  Handler Forward(const Origin& origin) {
    return [this, origin](Exchange& exchange) -> Task<void> {
      const std::string body = co_await exchange.ReadBody(1 << 20);
      RequestHead request = std::move(exchange.request());
      RemoveHopByHop(&request.headers);
      Call call = co_await client_->Send(origin, std::move(request), body);
      ResponseHead head = std::move(call.head());
      RemoveHopByHop(&head.headers);
      exchange.Start(std::move(head));
      while (!call.done()) {
        if (!call.ready()) co_await exchange.Flush();
        const std::string_view piece = co_await call.ReadPiece();
        if (call.done()) co_return co_await exchange.Finish(piece);
        co_await exchange.Write(piece);
      }
      co_await exchange.Finish();
    };
  }
  void Serve(const Origin& upstream) {
    proxy_.emplace(Forward(upstream));
    proxy_->loop().Do([&] { client_.emplace(proxy_->loop().loop(), ClientLimits{}); });
  }

  std::optional<Client> client_;
  std::optional<TestServer> proxy_;
};

TEST_F(ProxyTest, AnswersPassAsTheyCome) {
  RawListener engine;
  Serve(engine.origin());
  RawSocket client(proxy_->port());
  client.Send(
      "POST /v1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: X-Me\r\nX-Me: 1\r\n\r\nhi");
  RawSocket peer = engine.Accept();
  EXPECT_EQ(peer.ReceiveUntil("\r\n\r\nhi"),
            "POST /v1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
  peer.Send("HTTP/1.1 200 OK\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(client.ReceiveUntil("\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (std::string_view chunk : {"5\r\nevent\r\n", "1\r\n2\r\n"}) {
    peer.Send(chunk);
    EXPECT_EQ(client.ReceiveUntil(chunk), chunk);
  }
  peer.Send("0\r\n\r\n");
  EXPECT_EQ(client.ReceiveUntil("0\r\n\r\n"), "0\r\n\r\n");
}

TEST_F(ProxyTest, AClientThatGoesAwayClosesTheCallToTheEngine) {
  RawListener engine;
  Serve(engine.origin());
  for (std::string_view begun :
       {"", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"}) {
    RawSocket client(proxy_->port());
    client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    RawSocket peer = engine.Accept();
    peer.ReceiveUntil("\r\n\r\n");
    peer.Send(begun);
    if (!begun.empty()) client.ReceiveUntil("a\r\n");
    client.Close();
    EXPECT_EQ(peer.ReceiveAll(), "");
  }
}

TEST_F(ProxyTest, AnEngineThatBreaksOffIsNotTakenForAnEnd) {
  RawListener engine;
  Serve(engine.origin());
  const auto ask = [&](std::string_view answer) {
    RawSocket client(proxy_->port());
    client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    {
      RawSocket peer = engine.Accept();
      peer.ReceiveUntil("\r\n\r\n");
      peer.Send(answer);
    }
    return client.ReceiveUntil("never");
  };
  EXPECT_THAT(ask("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"),
              EndsWith("1\r\na\r\n"));
  EXPECT_THAT(ask("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), EndsWith("\r\n\r\nab"));
}

TEST_F(ProxyTest, ASlowClientHoldsTheEngineBack) {
  RawListener engine;
  Serve(engine.origin());
  RawSocket client(proxy_->port(), 64 * 1024);
  client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  RawSocket peer = engine.Accept();
  peer.ReceiveUntil("\r\n\r\n");
  constexpr size_t kBytes = 200 << 20;
  peer.Send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", kBytes));
  std::atomic<size_t> accepted = 0;
  std::thread sender([&] {
    const std::string piece(1 << 16, 'x');
    while (accepted < kBytes && peer.Send(piece)) accepted += piece.size();
  });
  size_t before = 1;
  while (before != accepted) {
    before = accepted;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_LT(accepted, kBytes / 4);
  size_t received = 0;
  client.ReceiveUntil("\r\n\r\n");
  while (received < kBytes) {
    const size_t more = client.Receive(1 << 20).size();
    if (more == 0) break;
    received += more;
  }
  sender.join();
  EXPECT_EQ(received, kBytes);
}

}  // namespace
}  // namespace isthmus::net
