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
#include "isthmus/net/process_signals.h"
#include "isthmus/net/server.h"
#include "isthmus/net/tls.h"

namespace isthmus::cli {

// Sets host and port from "HOST:PORT", the host an address or a name, an IPv6 address in brackets;
// port 0 lets the kernel choose. kInvalid.
void ParseListen(const std::string& text, net::ServerOptions* options);

// From the values of --tls-certificate, --tls-key and --tls-client-ca; null without them. kInvalid
// if one is there without the one that it needs.
std::shared_ptr<net::ServerTls> ListenerTls(const std::string& certificate, const std::string& key,
                                            const std::string& client_ca);

std::optional<fs::path> PathOrNone(const std::string& text);

// The first line of a file, without blanks around it; empty for no file.
std::string ReadToken(const std::string& file);

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
