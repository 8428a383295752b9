#include "isthmus/net/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/certificates.h"
#include "tests/support/errors.h"
#include "tests/support/net.h"
#include "tests/support/temp_dir.h"

namespace isthmus::net {
namespace {

using isthmus::testing::Certificate;
using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;
using isthmus::testing::Pause;
using isthmus::testing::RawSocket;
using isthmus::testing::TempDir;
using isthmus::testing::TestServer;

Task<void> Echo(Exchange& exchange) {
  const std::string body = co_await exchange.ReadBody(100 << 20);
  ResponseHead head;
  co_await exchange.Respond(std::move(head), body);
}

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    root_.WriteCertificate(directory_ / "root.pem");
    other_root_.WriteCertificate(directory_ / "other.pem");
    WriteIdentity("server", Certificate("DNS:localhost,IP:127.0.0.1", &root_));
    WriteIdentity("client", Certificate("", &root_));
  }

  void WriteIdentity(const std::string& name, const Certificate& certificate) {
    certificate.WriteCertificate(directory_ / (name + ".pem"));
    certificate.WriteKey(directory_ / (name + ".key"));
  }
  TlsIdentity Identity(const std::string& name) const {
    return {directory_ / (name + ".pem"), directory_ / (name + ".key")};
  }
  std::shared_ptr<ClientTls> Trusting(const std::string& root,
                                      std::optional<TlsIdentity> identity = std::nullopt) const {
    return std::make_shared<ClientTls>(directory_ / root, std::move(identity));
  }
  static Origin Secure(const TestServer& server, std::string host = "127.0.0.1") {
    return {true, std::move(host), server.port()};
  }
  // Sends the body over a new client's new connection; the answer.
  std::string Ask(const Origin& origin, std::shared_ptr<ClientTls> tls,
                  std::string body = "hello") {
    std::optional<Client> client;
    loop_.Do([&] { client.emplace(loop_.loop(), ClientLimits{}, std::move(tls)); });
    std::string answer;
    try {
      answer = loop_.Run([&]() -> Task<std::string> {
        RequestHead head;
        head.method = "POST";
        Call call = co_await client->Send(origin, std::move(head), body);
        std::string text = co_await call.ReadBody(100 << 20);
        co_return text;
      });
    } catch (const Error&) {
      loop_.Do([&] { client.reset(); });
      throw;
    }
    loop_.Do([&] { client.reset(); });
    return answer;
  }
  void ExpectRefused(const Origin& origin, std::shared_ptr<ClientTls> tls) {
    ExpectError(
        ErrorCode::kUnavailable, [&] { Ask(origin, std::move(tls)); }, origin.Authority());
  }

  TempDir directory_;
  Certificate root_{""};
  Certificate other_root_{""};
  LoopThread loop_;
};

ServerOptions With(std::shared_ptr<const ServerTls> tls) {
  ServerOptions options;
  options.tls = std::move(tls);
  options.limits.head = options.limits.linger = Milliseconds(200);
  return options;
}

TEST_F(TlsTest, BodiesOfAllSizesPass) {
  TestServer server(Echo, With(std::make_shared<ServerTls>(Identity("server"), std::nullopt)));
  for (size_t bytes : {0U, 1U, 16'384U, 5'000'000U}) {
    const std::string body(bytes, 'x');
    EXPECT_EQ(Ask(Secure(server), Trusting("root.pem"), body), body);
  }
  EXPECT_EQ(Ask(Secure(server, "localhost"), Trusting("root.pem")), "hello");
}

TEST_F(TlsTest, ServersMustProveWhoTheyAre) {
  TestServer server(Echo, With(std::make_shared<ServerTls>(Identity("server"), std::nullopt)));
  ExpectRefused(Secure(server), Trusting("other.pem"));
  ExpectRefused(Secure(server), std::make_shared<ClientTls>(std::nullopt, std::nullopt));
  WriteIdentity("elsewhere", Certificate("DNS:elsewhere,IP:127.0.0.2", &root_));
  TestServer wrong(Echo, With(std::make_shared<ServerTls>(Identity("elsewhere"), std::nullopt)));
  ExpectRefused(Secure(wrong), Trusting("root.pem"));
  ExpectRefused(Secure(wrong, "localhost"), Trusting("root.pem"));
}

TEST_F(TlsTest, ClientsMustProveWhoTheyAreIfAsked) {
  TestServer server(Echo,
                    With(std::make_shared<ServerTls>(Identity("server"), directory_ / "root.pem")));
  EXPECT_EQ(Ask(Secure(server), Trusting("root.pem", Identity("client"))), "hello");
  ExpectRefused(Secure(server), Trusting("root.pem"));
  WriteIdentity("stranger", Certificate("", &other_root_));
  ExpectRefused(Secure(server), Trusting("root.pem", Identity("stranger")));
  EXPECT_EQ(server.counters().requests, 1U);
}

TEST_F(TlsTest, AReloadIsForNewConnectionsAndABadOneChangesNothing) {
  const auto tls = std::make_shared<ServerTls>(Identity("server"), std::nullopt);
  TestServer server(Echo, With(tls));
  EXPECT_EQ(Ask(Secure(server), Trusting("root.pem")), "hello");
  WriteFileAtomic(directory_ / "server.key", AsBytes("not a key"));
  server.loop().Do([&] {
    ExpectError(
        ErrorCode::kInvalid, [&] { tls->Reload(); }, "server.key");
  });
  EXPECT_EQ(Ask(Secure(server), Trusting("root.pem")), "hello");
  WriteIdentity("server", Certificate("DNS:localhost,IP:127.0.0.1", &other_root_));
  server.loop().Do([&] { tls->Reload(); });
  ExpectRefused(Secure(server), Trusting("root.pem"));
  EXPECT_EQ(Ask(Secure(server), Trusting("other.pem")), "hello");
}

TEST_F(TlsTest, PlainAndSlowClientsAreDropped) {
  TestServer server(Echo, With(std::make_shared<ServerTls>(Identity("server"), std::nullopt)));
  server.Ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  RawSocket silent(server.port());
  EXPECT_EQ(silent.ReceiveAll(), "");
  EXPECT_TRUE(server.loop().Eventually([&] { return server.server().counters().open == 0; }));
  EXPECT_EQ(server.counters().requests, 0U);
}

TEST_F(TlsTest, AClientThatGoesAwayCancelsItsHandler) {
  std::atomic<bool> begun = false;
  TestServer server(
      [&](Exchange&) -> Task<void> {
        begun = true;
        co_await Pause(std::chrono::hours(1));
      },
      With(std::make_shared<ServerTls>(Identity("server"), std::nullopt)));
  const auto tls = Trusting("root.pem");
  std::optional<Client> client;
  loop_.Do([&] { client.emplace(loop_.loop(), ClientLimits{}, tls); });
  asio::cancellation_signal cancel;
  std::atomic<bool> cancelled = false;
  asio::co_spawn(
      loop_.loop().get_executor(),
      [&]() -> Task<void> {
        const Origin origin = Secure(server);
        Call call = co_await client->Send(origin, RequestHead());
      },
      asio::bind_cancellation_slot(
          cancel.slot(), [&](const std::exception_ptr& error) { cancelled = error != nullptr; }));
  ASSERT_TRUE(server.loop().Eventually([&] { return begun.load(); }));
  loop_.Do([&] { cancel.emit(asio::cancellation_type::terminal); });
  EXPECT_TRUE(loop_.Eventually([&] { return cancelled.load(); }));
  EXPECT_TRUE(server.loop().Eventually([&] { return server.server().counters().open == 0; }));
  EXPECT_EQ(server.counters().disconnected, 1U);
  loop_.Do([&] { client.reset(); });
}

TEST_F(TlsTest, FilesThatDoNotFitAreRefusedByName) {
  WriteFileAtomic(directory_ / "bad.pem", AsBytes("nothing"));
  const auto make = [&](const TlsIdentity& identity, const std::optional<fs::path>& ca) {
    return [=] { ServerTls tls(identity, ca); };
  };
  const TlsIdentity good = Identity("server");
  using enum ErrorCode;
  ExpectError(kInvalid, make({directory_ / "none.pem", good.private_key}, {}), "none.pem");
  ExpectError(kInvalid, make({directory_ / "bad.pem", good.private_key}, {}), "bad.pem");
  ExpectError(kInvalid, make({good.certificates, directory_ / "client.key"}, {}), "client.key");
  ExpectError(kInvalid, make(good, directory_ / "bad.pem"), "bad.pem");
  ExpectError(
      kInvalid, [&] { Trusting("none.pem"); }, "none.pem");
}

}  // namespace
}  // namespace isthmus::net
