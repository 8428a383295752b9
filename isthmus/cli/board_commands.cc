// pull, log, board: a run on a board.
#include <fmt/format.h>

#include <algorithm>

#include "isthmus/board/extra.h"
#include "isthmus/board/json_fields.h"
#include "isthmus/board/kept.h"
#include "isthmus/cli/command.h"
#include "isthmus/cli/manifest_facts.h"
#include "isthmus/replica/replica.h"

namespace isthmus::cli {
namespace {

using board::kNoVersion;
using board::Manifest;
using board::VersionNumber;
using board::VersionOrNull;

struct PullArguments {
  BoardOptions board;
  std::string replica;
  std::string version = "latest";
};

VersionNumber ResolveVersion(const board::Board& board, const PullArguments& arguments) {
  if (arguments.version == "latest") {
    const VersionNumber newest = board.Newest(arguments.board.run);
    if (newest != kNoVersion) return newest;
    Throw(ErrorCode::kNotFound,
          "pull run {} from {}: no such run, or no version of it that is not "
          "revoked",
          arguments.board.run, arguments.board.board);
  }
  const std::string& text = arguments.version;
  const bool digits = !text.empty() && text.size() <= 10 &&
                      std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || std::stoull(text) == 0) {
    Throw(ErrorCode::kInvalid, "read --version {}: expected a number from 1, or latest", text);
  }
  const VersionNumber version = std::stoull(text);
  if (!board.Read(arguments.board.run, version)) {
    Throw(ErrorCode::kNotFound, "pull version {} of run {} from {}: no such version", version,
          arguments.board.run, arguments.board.board);
  }
  return version;
}

void RunPull(const PullArguments& arguments, Context& context) {
  const MonotonicTime start = SystemClock().Monotonic();
  const board::Board board = arguments.board.Open();
  ResolveVersion(board, arguments);  // before a directory is made for nothing
  replica::Replica replica(arguments.replica, context.pool(), *context.progress);
  // Now that no other pull can move the replica: the latest may be a later one.
  const VersionNumber version = ResolveVersion(board, arguments);
  const replica::PullResult result = replica.Pull(board, arguments.board.run, version);
  const double seconds = SecondsSince(start);
  PrintNotes(result.notes);
  if (context.json) {
    return PrintJson({{"run", arguments.board.run},
                      {"version", result.to},
                      {"from", VersionOrNull(result.from)},
                      {"chain", json::array(result.chain.begin(), result.chain.end())},
                      {"fetched_bytes", result.fetched_bytes},
                      {"digest", FormatSha256(replica.state()->digest)},
                      {"seconds", seconds}});
  }
  Facts facts;
  facts.Add("version", fmt::format("{} of run {}", result.to, arguments.board.run));
  facts.Add("from", result.from == kNoVersion ? "nothing" : fmt::format("version {}", result.from));
  facts.Add("chain", result.chain.empty() ? "already there"
                                          : fmt::format("{}", fmt::join(result.chain, ", ")));
  facts.Add("fetched", FormatBytes(result.fetched_bytes));
  facts.Add("time", FormatSeconds(seconds));
  facts.Print();
}

std::string FormatAge(WallTime created) {
  const auto age = std::max(WallTime::duration(0), SystemClock().Now() - created);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  return seconds < 172800 ? fmt::format("{} h", seconds / 3600)
                          : fmt::format("{} d", seconds / 86400);
}

// What else a log shows of a version.
struct LogMarks {
  bool revoked = false;
  bool gone = false;               // cleaned: what its entry names is no longer there
  std::vector<std::string> added;  // payloads that were added later
};

std::string NameOf(const board::Extra& extra) {
  return extra.kind == board::PayloadKind::kAnchor ? "anchor"
                                                   : fmt::format("patch from {}", extra.base);
}

json::object LogEntry(const Manifest& manifest, const LogMarks& marks) {
  json::object entry = {{"version", manifest.version},
                        {"parent", VersionOrNull(manifest.parent)},
                        {"kind", IsAnchor(manifest) ? "anchor" : "patch"},
                        {"payload_bytes", manifest.payload_bytes()},
                        {"checkpoint_bytes", manifest.checkpoint_bytes},
                        {"changed", manifest.changed},
                        {"density", DensityOf(manifest)},
                        {"created_at", FormatTime(manifest.created_at)},
                        {"digest", FormatSha256(manifest.digest)},
                        {"epoch", manifest.epoch},
                        {"revoked", marks.revoked},
                        {"gone", marks.gone},
                        {"added", json::array(marks.added.begin(), marks.added.end())}};
  if (manifest.step) entry["step"] = *manifest.step;
  if (manifest.fork) {
    entry["fork"] = {{"run", manifest.fork->run}, {"version", manifest.fork->version}};
  }
  return entry;
}

std::vector<std::string> LogRow(const Manifest& manifest, const LogMarks& marks) {
  std::string kind = IsAnchor(manifest) ? "anchor" : "patch";
  if (manifest.fork) {
    kind += fmt::format(", fork of {} {}", manifest.fork->run, manifest.fork->version);
  }
  if (marks.gone) kind += ", gone";
  for (const std::string& added : marks.added) kind += " + " + added;
  if (marks.revoked) kind += ", revoked";
  return {fmt::format("{}", manifest.version),
          manifest.step ? fmt::format("{}", *manifest.step) : "",
          kind,
          FormatBytes(manifest.payload_bytes()),
          IsAnchor(manifest) ? "" : FormatCount(manifest.changed),
          IsAnchor(manifest) ? "" : FormatPercent(DensityOf(manifest)),
          FormatAge(manifest.created_at)};
}

void RunLog(const BoardOptions& options, Context& context) {
  const board::Board board = options.Open();
  const VersionNumber head = board.Head(options.run);
  if (head == kNoVersion) {
    Throw(ErrorCode::kNotFound, "read log of run {} on {}: no such run", options.run,
          options.board);
  }
  const std::vector<VersionNumber> withdrawn = board.Revoked(options.run);
  const board::Kept kept = board::ReadKept(board, options.run);
  std::multimap<VersionNumber, std::string> added;
  for (const board::Extra& extra : board::ListExtras(board, options.run)) {
    added.emplace(extra.version, NameOf(extra));
  }
  json::array versions;
  Table table({"version", "step", "kind", "payload", "changed", "density", "age"});
  for (VersionNumber version = head; version != kNoVersion; --version) {
    const std::optional<Manifest> manifest = board.Read(options.run, version);
    if (!manifest) {
      Throw(ErrorCode::kCorrupt, "read log of run {} on {}: version {} is missing, {} exists",
            options.run, options.board, version, head);
    }
    LogMarks marks = {std::ranges::binary_search(withdrawn, version), !kept.MayHave(version), {}};
    for (auto [at, end] = added.equal_range(version); at != end; ++at) {
      marks.added.push_back(at->second);
    }
    versions.push_back(LogEntry(*manifest, marks));
    table.Add(LogRow(*manifest, marks));
  }
  if (context.json) return PrintJson({{"run", options.run}, {"versions", versions}});
  table.Print();
}

struct InitArguments {
  std::string location;
  StoreArguments store;
};

void RunBoardInit(const InitArguments& arguments, Context& context) {
  std::unique_ptr<store::Store> store =
      store::OpenStore(arguments.location, arguments.store.Options());
  board::Board::Init(*store);
  const board::Board board = board::Board::Open(std::move(store));
  if (context.json) return PrintJson({{"board", board.uuid()}, {"format", board::kBoardFormat}});
  Facts facts;
  facts.Add("board", board.uuid());
  facts.Add("at", arguments.location);
  facts.Print();
}

struct RevokeArguments {
  BoardOptions board;
  VersionNumber version = kNoVersion;
  std::string reason;
};

void RunRevoke(const RevokeArguments& arguments, Context& context) {
  board::Board board = arguments.board.Open();
  board.Revoke(arguments.board.run, arguments.version, arguments.reason);
  if (context.json) {
    return PrintJson({{"run", arguments.board.run}, {"version", arguments.version}});
  }
  Facts facts;
  facts.Add("revoked", fmt::format("version {} of run {}", arguments.version, arguments.board.run));
  facts.Print();
}

}  // namespace

board::Trust BoardOptions::ReadTrust() const {
  board::Trust read;
  if (!sign_key.empty()) read.signer = SigningKey::Load(sign_key);
  for (const std::string& file : trust) {
    std::ranges::move(LoadPublicKeys(file), std::back_inserter(read.trusted));
  }
  return read;
}

void AddSignOption(CLI::App* command, BoardOptions* options) {
  command->add_option("--sign-key", options->sign_key,
                      "File of an Ed25519 key (\"isthmus key new\") to sign with");
}

void AddBoardOptions(CLI::App* command, BoardOptions* options, bool required) {
  command
      ->add_option("--trust", options->trust,
                   "File of public keys: refuse versions that none of them signed; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--board", options->board,
                   "Board: a directory, s3://BUCKET[/PREFIX], or to read http(s)://HOST/PATH")
      ->required(required);
  command->add_option("--run", options->run, "Run: one lineage of versions")->required(required);
  AddStoreOptions(command, &options->store);
}

void AddPull(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<PullArguments>();
  CLI::App* command = app.add_subcommand("pull", "Bring a replica to a version, forward or back");
  command->footer("Example: isthmus pull --board /mnt/board --run grpo-7 --replica /srv/model");
  AddBoardOptions(command, &arguments->board);
  command->add_option("--replica", arguments->replica, "Replica directory; created if missing")
      ->required();
  command->add_option("--version", arguments->version, "Version number, or latest")
      ->capture_default_str();
  command->callback([arguments, &context] { RunPull(*arguments, context); });
}

void AddLog(CLI::App& app, Context& context) {
  auto options = std::make_shared<BoardOptions>();
  CLI::App* command = app.add_subcommand("log", "List the versions of a run, newest first");
  command->footer("Example: isthmus log --board /mnt/board --run grpo-7");
  AddBoardOptions(command, options.get());
  command->callback([options, &context] { RunLog(*options, context); });
}

void AddBoard(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("board", "Operate a board");
  command->require_subcommand(1);
  command->fallthrough();
  auto init_arguments = std::make_shared<InitArguments>();
  CLI::App* init = command->add_subcommand("init", "Make an empty board");
  init->footer("Example: isthmus board init /mnt/board");
  init->add_option("BOARD", init_arguments->location, "Board: a directory or s3://BUCKET[/PREFIX]")
      ->required();
  AddStoreOptions(init, &init_arguments->store);
  init->callback([init_arguments, &context] { RunBoardInit(*init_arguments, context); });
  auto arguments = std::make_shared<RevokeArguments>();
  CLI::App* revoke = command->add_subcommand(
      "revoke", "Withdraw a version for good: islands leave it, and none goes to it");
  revoke->footer("Example: isthmus board revoke 41 --board /mnt/board --run grpo-7");
  AddBoardOptions(revoke, &arguments->board);
  revoke->add_option("VERSION", arguments->version, "Version number")->required();
  revoke->add_option("--reason", arguments->reason, "Kept with the version, one line");
  revoke->callback([arguments, &context] { RunRevoke(*arguments, context); });
  AddUpkeep(command, context);
  AddFork(command, context);
  AddBoardServe(*command, context);
}

}  // namespace isthmus::cli
