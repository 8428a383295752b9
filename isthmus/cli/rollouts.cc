// rollouts: what gateways recorded in a store.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>

#include "isthmus/cli/command.h"
#include "isthmus/gateway/rollout_reader.h"

namespace isthmus::cli {
namespace {

struct RolloutsArguments {
  std::string location;
  StoreArguments store;
  gateway::RolloutFilter filter;
};

void PrintLine(std::string_view line) {
  const bool written = std::fwrite(line.data(), 1, line.size(), stdout) == line.size() &&
                       std::fputc('\n', stdout) != EOF;
  if (!written) ThrowErrno(errno, "write", "standard output");
}

void RunRollouts(const RolloutsArguments& arguments) {
  const auto store = store::OpenStore(arguments.location, arguments.store.Options());
  gateway::RolloutReader reader(*store, arguments.filter);
  const gateway::ReadRollouts read = reader.Read(PrintLine);
  if (read.malformed > 0) {
    PrintNotes({fmt::format("{} lines are no rollouts and were left out", read.malformed)});
  }
}

}  // namespace

void AddRollouts(CLI::App& app, Context& /*context*/) {
  auto arguments = std::make_shared<RolloutsArguments>();
  CLI::App* command =
      app.add_subcommand("rollouts", "Print what gateways recorded, each rollout once");
  command
      ->add_option("LOCATION", arguments->location,
                   "Where gateways record: a directory or s3://BUCKET[/PREFIX]")
      ->required();
  command->add_option("--since", arguments->filter.since,
                      "Only requests that came then or later: 2026-01-31, 2026-01-31T09:30");
  command->add_option("--until", arguments->filter.until, "Only requests that came before");
  AddStoreOptions(command, &arguments->store);
  command->footer("Example: isthmus rollouts s3://bucket/rollouts --since 2026-01-31 | jq .answer");
  command->callback([arguments] { RunRollouts(*arguments); });
}

}  // namespace isthmus::cli
