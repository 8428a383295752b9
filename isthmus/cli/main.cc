#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "isthmus/cli/command.h"
#include "isthmus/codec/simd.h"

namespace {

using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::cli::Context;

// More than the cores of any machine that this was written for; each costs a stack and buffers.
constexpr int kMaxThreads = 1024;

// Every long option also comes from ISTHMUS_<NAME>, except those that would change what a command
// does rather than how: --help, the program's --version, and what verify is to look at.
bool HasEnvironment(const CLI::App& app, const std::string& option) {
  if (option == "help") return false;
  if (option == "version") return app.get_parent() != nullptr;
  return app.get_name() != "verify";
}

void NameEnvironment(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || !HasEnvironment(app, option->get_lnames()[0])) continue;
    std::string name = "ISTHMUS_" + option->get_lnames()[0];
    std::ranges::transform(name, name.begin(), [](unsigned char c) {
      return c == '-' ? '_' : static_cast<char>(std::toupper(c));
    });
    option->envname(name);
  }
  for (CLI::App* command : app.get_subcommands({})) NameEnvironment(*command);
}

void Declare(CLI::App& app, Context& context) {
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", "isthmus " ISTHMUS_VERSION);
  const char* config = std::getenv("ISTHMUS_CONFIG");  // NOLINT(concurrency-mt-unsafe)
  const bool has_config = config != nullptr && *config != '\0';
  app.set_config("--config", has_config ? config : "",
                 "Read options from a TOML file; the command line wins", has_config);
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_flag("--json", context.json, "Print one JSON object instead of text");
  app.add_option("--threads", context.threads, "Threads to use (0: one per core)")
      ->check(CLI::Range(0, kMaxThreads))
      ->capture_default_str();
  isthmus::cli::AddDiff(app, context);
  isthmus::cli::AddSquash(app, context);
  isthmus::cli::AddApply(app, context);
  isthmus::cli::AddVerify(app, context);
  isthmus::cli::AddInspect(app, context);
  isthmus::cli::AddPublish(app, context);
  isthmus::cli::AddPull(app, context);
  isthmus::cli::AddLog(app, context);
  isthmus::cli::AddBoard(app, context);
  isthmus::cli::AddKey(app, context);
  isthmus::cli::AddSidecar(app, context);
  isthmus::cli::AddGateway(app, context);
  isthmus::cli::AddSimulate(app, context);
  isthmus::cli::AddStatus(app, context);
  isthmus::cli::AddRollouts(app, context);
  isthmus::cli::AddCompletion(app, context);
  NameEnvironment(app);
}

int Fail(const Context& context, const Error& error) {
  const std::string message = isthmus::cli::OneLine(error.what());
  fmt::print(stderr, "isthmus: {}\n", message);
  if (context.json) {
    isthmus::cli::PrintJson(
        {{"error", {{"code", isthmus::ErrorCodeName(error.code())}, {"message", message}}}});
  }
  return isthmus::cli::ExitCode(error.code());
}

// A failure of the command line itself. What could not be understood is often the better message
// than what is missing because of it.
Error UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !unknown.empty()) {
    return {ErrorCode::kInvalid, fmt::format("read argument {}: unknown; see --help", unknown[0])};
  }
  return {ErrorCode::kInvalid, error.what()};
}

// ISTHMUS_SIMD is no option: it changes nothing but the speed, and is for those who measure that.
void SelectSimd() {
  const char* target = std::getenv("ISTHMUS_SIMD");  // NOLINT(concurrency-mt-unsafe)
  if (target != nullptr && *target != '\0') isthmus::codec::SelectSimd(target);
}

int Run(CLI::App& app, Context& context, int argc, char** argv) {
  try {
    SelectSimd();
    app.parse(argc, argv);
    return context.exit_code;
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return Fail(context, UsageError(app, error));
  } catch (const Error& error) {
    return Fail(context, error);
  } catch (const std::filesystem::filesystem_error& error) {
    return Fail(context, Error(ErrorCode::kUnavailable, error.what()));
  } catch (const std::system_error& error) {  // fmt: standard output cannot be written
    return Fail(context, Error(ErrorCode::kUnavailable, error.what()));
  } catch (const std::exception& error) {
    return Fail(context, Error(ErrorCode::kInternal, error.what()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Isthmus: RL weights as exact patches, from the trainer to engines anywhere",
               "isthmus");
  Context context;
  Declare(app, context);
  // Known before parsing, which may fail.
  context.json = std::any_of(argv, argv + argc, [](const char* argument) {
    return std::string_view(argument) == "--json";
  });
  const int code = Run(app, context, argc, argv);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return Fail(context, Error(ErrorCode::kUnavailable, "write standard output: it was cut off"));
}
