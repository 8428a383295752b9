// verify: whether bytes are what they claim to be.
#include <fmt/format.h>

#include "isthmus/cli/command.h"
#include "isthmus/replica/verify.h"
#include "isthmus/upkeep/board_check.h"

namespace isthmus::cli {
namespace {

using Problems = std::vector<std::string>;

struct VerifyOptions {
  std::string checkpoint;
  std::string against;
  std::string replica;
  BoardOptions board;
  bool deep = false;
  std::vector<board::VersionNumber> rebuild;
};

Problems VerifyBoard(const VerifyOptions& options, Context& context) {
  const board::Board board = options.board.Open();
  upkeep::CheckReport report = upkeep::CheckBoard(
      board, options.board.run, {options.deep, options.rebuild}, context.pool(), *context.progress);
  PrintNotes(report.notes);
  return std::move(report.problems);
}

Problems Verify(const VerifyOptions& options, Context& context) {
  if (options.checkpoint.empty() != options.against.empty() ||
      (!options.checkpoint.empty() && !options.replica.empty())) {
    Throw(ErrorCode::kInvalid, "verify {}: CHECKPOINT and --against go together, without --replica",
          options.checkpoint);
  }
  const bool of_board = !options.board.board.empty() || !options.board.run.empty() ||
                        options.deep || !options.rebuild.empty();
  if (of_board && (!options.checkpoint.empty() || !options.replica.empty())) {
    Throw(ErrorCode::kInvalid, "verify: a board and something else, one at a time allowed");
  }
  if (!options.checkpoint.empty()) {
    return replica::FindDifferences(options.checkpoint, options.against, context.pool(),
                                    *context.progress);
  }
  if (!options.replica.empty()) {
    return replica::FindReplicaDamage(options.replica, context.pool(), *context.progress);
  }
  if (!options.board.board.empty() && !options.board.run.empty()) {
    return VerifyBoard(options, context);
  }
  Throw(ErrorCode::kInvalid,
        "verify: name CHECKPOINT --against OTHER, --replica DIR, or --board BOARD --run RUN");
}

void RunVerify(const VerifyOptions& options, Context& context) {
  const Problems problems = Verify(options, context);
  if (!problems.empty()) context.exit_code = ExitCode(ErrorCode::kCorrupt);
  if (context.json) {
    return PrintJson(
        {{"ok", problems.empty()}, {"problems", json::array(problems.begin(), problems.end())}});
  }
  for (const std::string& problem : problems) fmt::print("{}\n", problem);
  if (problems.empty()) fmt::print("ok\n");
}

}  // namespace

void AddVerify(CLI::App& app, Context& context) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify", "Say whether a checkpoint, a replica or a board is what it claims to be");
  command->footer("Example: isthmus verify /srv/model --against step-38");
  command->add_option("CHECKPOINT", options->checkpoint, "Checkpoint directory");
  command->add_option("--against", options->against, "Checkpoint that it should equal");
  command->add_option("--replica", options->replica, "Replica directory");
  AddBoardOptions(command, &options->board, false);
  command->add_flag("--deep", options->deep, "Read every payload of the board");
  command
      ->add_option("--rebuild", options->rebuild,
                   "Rebuild this version of the board from nothing; repeatable")
      ->allow_extra_args(false);
  command->callback([options, &context] { RunVerify(*options, context); });
}

}  // namespace isthmus::cli
