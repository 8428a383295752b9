#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>

#include "isthmus/cli/command.h"

namespace {

using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::cli::Context;

// More than the cores of any machine that this was written for; each costs a stack and buffers.
constexpr int kMaxThreads = 1024;

// Every long option also comes from ISTHMUS_<NAME>.
void NameEnvironment(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames()[0] == "help") continue;
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
  app.set_config("--config", "", "Read options from a TOML file; the command line wins");
  app.add_flag("--json", context.json, "Print one JSON object instead of text");
  app.add_option("--threads", context.threads, "Threads to use (0: one per core)")
      ->check(CLI::Range(0, kMaxThreads))
      ->capture_default_str();
  isthmus::cli::AddDiff(app, context);
  isthmus::cli::AddApply(app, context);
  isthmus::cli::AddVerify(app, context);
  isthmus::cli::AddInspect(app, context);
  isthmus::cli::AddPublish(app, context);
  isthmus::cli::AddPull(app, context);
  isthmus::cli::AddLog(app, context);
  isthmus::cli::AddBoard(app, context);
  isthmus::cli::AddCompletion(app, context);
  NameEnvironment(app);
}

int Fail(const Context& context, const Error& error) {
  fmt::print(stderr, "isthmus: {}\n", error.what());
  if (context.json) {
    isthmus::cli::PrintJson(
        {{"error", {{"code", isthmus::ErrorCodeName(error.code())}, {"message", error.what()}}}});
  }
  return isthmus::cli::ExitCode(error.code());
}

int Run(CLI::App& app, Context& context, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return context.exit_code;
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return Fail(context, Error(ErrorCode::kInvalid, error.what()));
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
  const int code = Run(app, context, argc, argv);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return Fail(context, Error(ErrorCode::kUnavailable, "write standard output: it was cut off"));
}
