// The options of commands that serve HTTP.
#ifndef ISTHMUS_CLI_LISTENER_H_
#define ISTHMUS_CLI_LISTENER_H_

#include <boost/asio/co_spawn.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "isthmus/base/file.h"
#include "isthmus/cli/command.h"
#include "isthmus/net/access.h"
#include "isthmus/net/process_signals.h"
#include "isthmus/net/server.h"

namespace isthmus::cli {

// Sets host and port from "HOST:PORT", the host an address or a name, an IPv6 address in brackets;
// port 0 lets the kernel choose. kInvalid.
void ParseListen(const std::string& text, net::ServerOptions* options);

// --client-tokens, --operator-tokens, --tls-certificate, --tls-key, --tls-client-ca.
struct AccessArguments {
  std::string client_tokens, operator_tokens, tls_certificate, tls_key, tls_client_ca;

  // kInvalid if one of the last three is there without the one that it needs.
  net::AccessOptions Options() const;
};
// `operators`: what is for operators alone; empty: nothing, and there is no option for their
// tokens.
void AddAccessOptions(CLI::App* command, AccessArguments* arguments, const std::string& operators);

// --max-body-mib, --max-held-mib.
struct BodyArguments {
  uint64_t max_body_mib = 64;
  uint64_t max_held_mib = 1024;

  uint64_t max_body_bytes() const { return max_body_mib << 20; }
  uint64_t max_held_bytes() const { return max_held_mib << 20; }
};
void AddBodyOptions(CLI::App* command, BodyArguments* arguments);

std::optional<fs::path> PathOrNone(const std::string& text);

// The first line of a file, without blanks around it; empty for no file.
std::string ReadToken(const std::string& file);

// Makes a file that would become too large an error of the write, as a full disk is, and not the
// end.
void TakeLargeFilesAsErrors();

// Raises the limit of open files, of which each connection needs one or two, as far as allowed.
void AllowManyFiles();

// "listening on URL", or {"listening":URL}: whoever started the program waits for this line.
void PrintListening(const Context& context, const std::string& host, bool tls, uint16_t port);

// Runs a program that serves (Run, Terminate, Reload) until SIGTERM or SIGINT has ended it; a
// second one ends the process at once, as kill -9 would. `announce` is called when signals are
// taken: whoever waits for what it prints may send one at once.
template <typename Program, typename Announce>
void ServeUntilTold(net::Loop& loop, Program& program, const Announce& announce) {
  bool told = false;
  const auto terminate = [&] {
    if (std::exchange(told, true)) std::_Exit(ExitCode(ErrorCode::kUnavailable));
    program.Terminate();
  };
  const net::ProcessSignals signals(loop, terminate, [&] { program.Reload(); });
  announce();
  std::exception_ptr failure;
  boost::asio::co_spawn(loop, program.Run(), [&](const std::exception_ptr& error) {
    failure = error;
    loop.stop();
  });
  loop.run();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace isthmus::cli

#endif  // ISTHMUS_CLI_LISTENER_H_
