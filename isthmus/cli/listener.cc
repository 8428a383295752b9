#include "isthmus/cli/listener.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>

#include "isthmus/net/http.h"

namespace isthmus::cli {
namespace {

std::shared_ptr<net::ServerTls> ListenerTls(const std::string& certificate, const std::string& key,
                                            const std::string& client_ca) {
  if (certificate.empty() && key.empty()) {
    if (client_ca.empty()) return nullptr;
    Throw(ErrorCode::kInvalid, "read --tls-client-ca: needs --tls-certificate and --tls-key");
  }
  if (certificate.empty() || key.empty()) {
    Throw(ErrorCode::kInvalid, "read --tls-certificate and --tls-key: one needs the other");
  }
  return std::make_shared<net::ServerTls>(net::TlsIdentity{certificate, key},
                                          PathOrNone(client_ca));
}

}  // namespace

void ParseListen(const std::string& text, net::ServerOptions* options) {
  try {
    const net::Origin origin = net::Origin::Parse("http://" + text);
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || text.ends_with(']')) {
      Throw(ErrorCode::kInvalid, "no port");
    }
    options->host = origin.host;
    options->port = origin.port;
  } catch (const Error& error) {
    // Port 0, which no origin has, lets the kernel choose.
    if (!text.ends_with(":0") || text.size() < 3) {
      Throw(ErrorCode::kInvalid, "read --listen {}: expected HOST:PORT ({})", text, error.what());
    }
    options->host = net::Origin::Parse("http://" + text.substr(0, text.size() - 2)).host;
    options->port = 0;
  }
}

std::optional<fs::path> PathOrNone(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<fs::path>(text);
}

std::string ReadToken(const std::string& file) {
  if (file.empty()) return {};
  constexpr uint64_t kMaxTokenBytes = 64 << 10;
  const std::string text = ReadFile(file, kMaxTokenBytes);
  const std::string_view line = std::string_view{text}.substr(0, text.find_first_of("\r\n"));
  return std::string{net::TrimBlanks(line)};
}

net::AccessOptions AccessArguments::Options() const {
  return {ListenerTls(tls_certificate, tls_key, tls_client_ca), PathOrNone(client_tokens),
          PathOrNone(operator_tokens)};
}

void AddAccessOptions(CLI::App* command, AccessArguments* arguments, const std::string& operators) {
  command->add_option("--client-tokens", arguments->client_tokens,
                      "File of bearer tokens, one a line, that requests must show");
  if (!operators.empty()) {
    command->add_option("--operator-tokens", arguments->operator_tokens,
                        "The same for " + operators);
  }
  command->add_option("--tls-certificate", arguments->tls_certificate,
                      "PEM file: serve TLS with it; read again on SIGHUP");
  command->add_option("--tls-key", arguments->tls_key, "PEM file of its private key");
  command->add_option("--tls-client-ca", arguments->tls_client_ca,
                      "PEM file: clients must show a certificate of this authority");
}

void AddBodyOptions(CLI::App* command, BodyArguments* arguments) {
  command->add_option("--max-body-mib", arguments->max_body_mib, "Most that a request may have")
      ->check(CLI::Range(uint64_t{1}, uint64_t{65'536}))
      ->capture_default_str();
  command
      ->add_option("--max-held-mib", arguments->max_held_mib,
                   "Most that all requests that come in or wait may have")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 24))
      ->capture_default_str();
}

void TakeLargeFilesAsErrors() {
  if (std::signal(SIGXFSZ, SIG_IGN) == SIG_ERR) {
    Throw(ErrorCode::kInternal, "ignore SIGXFSZ: refused");
  }
}

// The shell's usual 1,024 are soon used up.
void AllowManyFiles() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // else it stays as it was
}

void PrintListening(const Context& context, const std::string& host, bool tls, uint16_t port) {
  const std::string url =
      fmt::format("{}://{}", tls ? "https" : "http", net::Origin{false, host, port}.Authority());
  if (context.json) {
    PrintJson({{"listening", url}});
  } else {
    fmt::print("listening on {}\n", url);
  }
  std::fflush(stdout);
}

}  // namespace isthmus::cli
