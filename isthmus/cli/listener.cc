#include "isthmus/cli/listener.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>

#include "isthmus/net/http.h"

namespace isthmus::cli {

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

std::string ReadToken(const std::string& file) {
  if (file.empty()) return {};
  constexpr uint64_t kMaxTokenBytes = 64 << 10;
  const std::string text = ReadFile(file, kMaxTokenBytes);
  const std::string_view line = std::string_view{text}.substr(0, text.find_first_of("\r\n"));
  return std::string{net::TrimBlanks(line)};
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
