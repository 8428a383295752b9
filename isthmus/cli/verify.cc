// verify: whether bytes are what they claim to be.
#include <fmt/format.h>

#include <algorithm>

#include "isthmus/cli/command.h"
#include "isthmus/codec/diff.h"
#include "isthmus/replica/chain_apply.h"
#include "isthmus/replica/state.h"
#include "isthmus/upkeep/board_check.h"

namespace isthmus::cli {
namespace {

using Problems = std::vector<std::string>;

using tensor::VersionTable;

struct VerifyOptions {
  std::string checkpoint;
  std::string against;
  std::string replica;
  BoardOptions board;
  bool deep = false;
  std::vector<board::VersionNumber> rebuild;
};

void CompareFiles(const VersionTable& found, const VersionTable& expected, Problems* problems) {
  for (const auto& file : expected.files) {
    const auto at = std::ranges::find(found.files, file.path, &VersionTable::File::path);
    if (at == found.files.end()) {
      problems->push_back(fmt::format("file {} is missing", file.path));
    } else if (*at != file) {
      problems->push_back(fmt::format("file {} differs", file.path));
    }
  }
  for (const auto& file : found.files) {
    if (std::ranges::find(expected.files, file.path, &VersionTable::File::path) ==
        expected.files.end()) {
      problems->push_back(fmt::format("file {} is not in the other checkpoint", file.path));
    }
  }
}

// Tables of checkpoints between which a patch could lead: the same tensors and shards.
void CompareTables(const VersionTable& found, const VersionTable& expected, Problems* problems) {
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    if (found.tensors[i].digest == expected.tensors[i].digest) continue;
    problems->push_back(fmt::format("tensor {} differs: {}, expected {}", expected.tensors[i].name,
                                    found.tensors[i].digest.Hex(),
                                    expected.tensors[i].digest.Hex()));
  }
  for (size_t i = 0; i < expected.shards.size(); ++i) {
    if (found.shards[i] == expected.shards[i]) continue;
    problems->push_back(fmt::format("the header of shard {} differs", expected.shards[i].file));
  }
  CompareFiles(found, expected, problems);
}

Problems VerifyAgainst(const VerifyOptions& options, Context& context) {
  const auto found = tensor::Checkpoint::Open(options.checkpoint);
  const auto expected = tensor::Checkpoint::Open(options.against);
  if (const auto why = codec::WhyNoPatch(expected, found)) return {*why};
  Problems problems;
  CompareTables(tensor::DigestCheckpoint(found, context.pool(), *context.progress),
                tensor::DigestCheckpoint(expected, context.pool(), *context.progress), &problems);
  return problems;
}

// Takes no lock and changes nothing: safe beside whatever keeps the replica.
Problems VerifyReplica(const VerifyOptions& options, Context& context) {
  const replica::ControlPaths paths(options.replica);
  if (!Exists(paths.marker())) {
    Throw(ErrorCode::kNotFound, "verify replica {}: no replica there", options.replica);
  }
  if (Exists(paths.journal()) || Exists(paths.swap())) {
    return {"a change is going on, or was interrupted: the next pull completes or takes it back"};
  }
  const auto state = replica::ReadState(paths);
  if (!state) return {"at no version"};
  Problems problems;
  try {
    const VersionTable table = replica::ReadTable(paths, state->digest);
    const auto checkpoint = tensor::Checkpoint::Open(options.replica);
    problems = replica::FindDamage(checkpoint, table, context.pool(), *context.progress);
    for (const auto& file : checkpoint.other_files()) {
      if (!std::ranges::binary_search(table.files, file.path, {}, &VersionTable::File::path)) {
        problems.push_back(fmt::format("file {} is not of this version", file.path));
      }
    }
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;  // no room or permission: no finding
    problems = {error.what()};
  }
  if (Exists(paths.journal()) || Exists(paths.swap()) || replica::ReadState(paths) != state) {
    Throw(ErrorCode::kNotReady, "verify replica {}: a pull changed it meanwhile, try again",
          options.replica);
  }
  return problems;
}

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
  if (!options.checkpoint.empty()) return VerifyAgainst(options, context);
  if (!options.replica.empty()) return VerifyReplica(options, context);
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
