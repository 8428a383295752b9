// board fork: a run that starts from a version of another.
#include "isthmus/upkeep/fork.h"

#include <fmt/format.h>

#include "isthmus/cli/command.h"

namespace isthmus::cli {
namespace {

struct ForkArguments {
  BoardOptions board;  // its run is the new one
  board::ForkPoint from;
  std::string checkpoint;
};

void PrintForked(const upkeep::ForkResult& result, const Context& context) {
  const board::Manifest& manifest = result.manifest;
  if (context.json) {
    return PrintJson({{"run", manifest.run},
                      {"version", manifest.version},
                      {"fork", {{"run", manifest.fork->run}, {"version", manifest.fork->version}}},
                      {"digest", FormatSha256(manifest.digest)},
                      {"payload_bytes", manifest.payload_bytes()},
                      {"stored_bytes", result.stored_bytes}});
  }
  Facts facts;
  facts.Add("version", fmt::format("{} of run {}", manifest.version, manifest.run));
  facts.Add("fork of", fmt::format("version {} of run {}, whose anchor it shares",
                                   manifest.fork->version, manifest.fork->run));
  facts.Add("stored", FormatBytes(result.stored_bytes));
  facts.Print();
}

void RunFork(const ForkArguments& arguments, Context& context) {
  board::CheckRunName(arguments.from.run);
  board::Board board = arguments.board.Open();
  const upkeep::ForkRequest request = {arguments.from, arguments.board.run, arguments.checkpoint};
  PrintForked(upkeep::Fork(board, request, context.pool(), *context.progress), context);
}

}  // namespace

void AddFork(CLI::App* board, Context& context) {
  auto arguments = std::make_shared<ForkArguments>();
  CLI::App* command =
      board->add_subcommand("fork", "Begin a new run with a version of another; nothing is copied");
  command->footer("Example: isthmus board fork grpo-7 41 --board /mnt/board --run grpo-8");
  AddBoardOptions(command, &arguments->board);
  AddSignOption(command, &arguments->board);
  command->add_option("RUN", arguments->from.run, "The run to start from; --run names the new one")
      ->required();
  command->add_option("VERSION", arguments->from.version, "Its version")->required();
  command->add_option(
      "--checkpoint", arguments->checkpoint,
      "Checkpoint of this version, a replica or the trainer's: stored as its anchor "
      "if it has none");
  command->callback([arguments, &context] { RunFork(*arguments, context); });
}

}  // namespace isthmus::cli
