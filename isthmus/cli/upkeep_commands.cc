// board anchor, pin, unpin, gc, and key: keeping a board small, quick to join and trusted.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <thread>

#include "isthmus/base/ed25519.h"
#include "isthmus/cli/command.h"
#include "isthmus/upkeep/anchor.h"
#include "isthmus/upkeep/cleaning.h"
#include "isthmus/upkeep/tending.h"

namespace isthmus::cli {
namespace {

using board::VersionNumber;

struct AnchorArguments {
  BoardOptions board;
  VersionNumber version = board::kNoVersion;
  std::string checkpoint;
};

void RunAnchor(const AnchorArguments& arguments, Context& context) {
  board::Board board = arguments.board.Open();
  const uint64_t bytes = upkeep::AddAnchor(board, arguments.board.run, arguments.version,
                                           arguments.checkpoint, context.pool(), *context.progress);
  if (context.json) {
    return PrintJson(
        {{"run", arguments.board.run}, {"version", arguments.version}, {"payload_bytes", bytes}});
  }
  Facts facts;
  facts.Add("version", fmt::format("{} of run {}", arguments.version, arguments.board.run));
  facts.Add("anchor", bytes == 0 ? "there already" : FormatBytes(bytes));
  facts.Print();
}

struct PinArguments {
  BoardOptions board;
  std::string name;
  VersionNumber version = board::kNoVersion;
  uint64_t hours = 24;
};

void RunPin(const PinArguments& arguments, Context& context) {
  board::Board board = arguments.board.Open();
  const board::Pin pin = {arguments.name, arguments.version,
                          SystemClock().Now() + std::chrono::hours(arguments.hours)};
  board::PutPin(board, arguments.board.run, pin);
  if (context.json) {
    return PrintJson({{"run", arguments.board.run},
                      {"name", pin.name},
                      {"version", pin.version},
                      {"expires_at", FormatTime(pin.expires_at)}});
  }
  Facts facts;
  facts.Add("pinned",
            fmt::format("version {} of run {}, as {}", pin.version, arguments.board.run, pin.name));
  facts.Add("until", FormatTime(pin.expires_at));
  facts.Print();
}

void RunUnpin(const PinArguments& arguments, Context& context) {
  board::Board board = arguments.board.Open();
  if (!board::RemovePin(board, arguments.board.run, arguments.name)) {
    Throw(ErrorCode::kNotFound, "unpin {} of run {} on {}: no such pin", arguments.name,
          arguments.board.run, arguments.board.board);
  }
  if (context.json) return PrintJson({{"run", arguments.board.run}, {"name", arguments.name}});
  Facts facts;
  facts.Add("unpinned", arguments.name);
  facts.Print();
}

struct CleanArguments {
  BoardOptions board;
  uint64_t keep_last = 50;
  uint64_t keep_every = 0;
  uint64_t keep_younger_h = 24;
  uint64_t grace_h = 24;
  bool apply = false;
};

void PrintCleaning(const upkeep::CleaningReport& report, bool applied, Context& context) {
  if (context.json) {
    return PrintJson(
        {{"applied", applied},
         {"kept", json::array(report.kept.begin(), report.kept.end())},
         {"payloads_removed", report.payloads_removed},
         {"objects_removed", report.objects_removed},
         {"bytes_removed", report.bytes_removed},
         {"leftovers", report.leftovers},
         {"leftovers_removed", report.leftovers_removed},
         {"pins_removed", json::array(report.pins_removed.begin(), report.pins_removed.end())},
         {"unexplained", json::array(report.unexplained.begin(), report.unexplained.end())}});
  }
  Facts facts;
  facts.Add("kept", fmt::format("{} versions, each proven", report.kept.size()));
  facts.Add(applied ? "removed" : "would remove",
            fmt::format("{} payloads, {} objects, {}", FormatCount(report.payloads_removed),
                        FormatCount(report.objects_removed), FormatBytes(report.bytes_removed)));
  facts.Add("leftovers",
            fmt::format("{} of {} objects that nothing names",
                        FormatCount(report.leftovers_removed), FormatCount(report.leftovers)));
  facts.Add("expired pins", fmt::format("{}", report.pins_removed.size()));
  facts.Print();
  for (const std::string& key : report.unexplained) {
    PrintNotes({fmt::format("{} is no object of a board, left alone", key)});
  }
  if (!applied) PrintNotes({"nothing was changed; --apply removes"});
}

void RunClean(const CleanArguments& arguments, Context& context) {
  board::Board board = arguments.board.Open();
  upkeep::CleaningPolicy policy;
  policy.retention.keep_last = arguments.keep_last;
  policy.retention.keep_every = arguments.keep_every;
  policy.retention.keep_younger = std::chrono::hours(arguments.keep_younger_h);
  policy.grace = std::chrono::hours(arguments.grace_h);
  policy.apply = arguments.apply;
  PrintCleaning(upkeep::Clean(board, arguments.board.run, policy, SystemClock().Now(),
                              context.pool(), *context.progress),
                policy.apply, context);
}

void RunKeyNew(const std::string& file, Context& context) {
  const SigningKey key = SigningKey::Generate();
  key.Save(file);
  if (context.json) return PrintJson({{"key", key.public_key().Hex()}, {"file", file}});
  Facts facts;
  facts.Add("private key", file);
  facts.Add("public key", fmt::format("{}.pub: {}", file, key.public_key().Hex()));
  facts.Print();
}

void AddAnchorCommand(CLI::App* board, Context& context) {
  auto arguments = std::make_shared<AnchorArguments>();
  CLI::App* command = board->add_subcommand(
      "anchor", "Store a whole checkpoint of a version, so that joins begin there");
  command->footer("Example: isthmus board anchor 41 /srv/model --board /mnt/board --run grpo-7");
  AddBoardOptions(command, &arguments->board);
  AddSignOption(command, &arguments->board);
  command->add_option("VERSION", arguments->version, "Version number")->required();
  command
      ->add_option("CHECKPOINT", arguments->checkpoint,
                   "Checkpoint of this version: a replica, or the trainer's")
      ->required();
  command->callback([arguments, &context] { RunAnchor(*arguments, context); });
}

void AddPinCommands(CLI::App* board, Context& context) {
  constexpr uint64_t kMostHours = 24 * 366 * 10;  // ten years: longer is no claim but a policy
  auto arguments = std::make_shared<PinArguments>();
  CLI::App* pin = board->add_subcommand("pin", "Claim a version, so that cleaning keeps it");
  pin->footer("Example: isthmus board pin evaluation 41 --board /mnt/board --run grpo-7");
  AddBoardOptions(pin, &arguments->board);
  pin->add_option("NAME", arguments->name, "Whose claim; another of this name is replaced")
      ->required();
  pin->add_option("VERSION", arguments->version, "Version number")->required();
  pin->add_option("--hours", arguments->hours, "How long it holds")
      ->check(CLI::Range(uint64_t{1}, kMostHours))
      ->capture_default_str();
  pin->callback([arguments, &context] { RunPin(*arguments, context); });
  CLI::App* unpin = board->add_subcommand("unpin", "Give up such a claim");
  unpin->footer("Example: isthmus board unpin evaluation --board /mnt/board --run grpo-7");
  AddBoardOptions(unpin, &arguments->board);
  unpin->add_option("NAME", arguments->name, "The claim's name")->required();
  unpin->callback([arguments, &context] { RunUnpin(*arguments, context); });
}

void AddCleanCommand(CLI::App* board, Context& context) {
  constexpr uint64_t kMostHours = 24 * 366 * 100;
  auto arguments = std::make_shared<CleanArguments>();
  CLI::App* command = board->add_subcommand("gc", "Say what nobody needs any more, or remove it");
  command->footer("Example: isthmus board gc --board /mnt/board --run grpo-7 --keep-last 100");
  AddBoardOptions(command, &arguments->board);
  command->add_option("--keep-last", arguments->keep_last, "Versions that stay, the newest")
      ->check(CLI::Range(uint64_t{1}, board::kMaxVersion))
      ->capture_default_str();
  command
      ->add_option("--keep-every", arguments->keep_every,
                   "Every version whose number is a multiple stays; 0: none")
      ->capture_default_str();
  command
      ->add_option("--keep-younger-h", arguments->keep_younger_h, "Versions that are younger stay")
      ->check(CLI::Range(uint64_t{0}, kMostHours))
      ->capture_default_str();
  command
      ->add_option("--grace-h", arguments->grace_h,
                   "Objects that nothing names go when they have been seen so long")
      ->check(CLI::Range(uint64_t{0}, kMostHours))
      ->capture_default_str();
  command->add_flag("--apply", arguments->apply, "Remove; else nothing is changed");
  command->callback([arguments, &context] { RunClean(*arguments, context); });
}

struct TendArguments {
  BoardOptions board;
  std::string directory;
  upkeep::TendPolicy policy;
  bool watch = false;
  uint64_t poll_s = 10;
};

void PrintTended(const upkeep::TendReport& report, const Context& context) {
  PrintNotes(report.notes);
  if (context.json) {
    return PrintJson({{"added", json::array(report.added.begin(), report.added.end())},
                      {"stored_bytes", report.stored_bytes}});
  }
  Facts facts;
  facts.Add("added",
            report.added.empty() ? "nothing" : fmt::format("{}", fmt::join(report.added, ", ")));
  facts.Add("stored", FormatBytes(report.stored_bytes));
  facts.Print();
}

// A board that is away now may be back at the next look.
void TendForEver(upkeep::Tender& tender, const TendArguments& arguments, Context& context) {
  for (;; std::this_thread::sleep_for(std::chrono::seconds(arguments.poll_s))) {
    try {
      const upkeep::TendReport report = tender.Tend();
      if (!report.added.empty() || !report.notes.empty()) PrintTended(report, context);
      std::fflush(stdout);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable && error.code() != ErrorCode::kNotReady) throw;
      PrintNotes({error.what()});
    }
  }
}

void RunTend(const TendArguments& arguments, Context& context) {
  board::Board board = arguments.board.Open();
  upkeep::Tender tender(board, arguments.board.run, arguments.directory, arguments.policy,
                        context.pool(), *context.progress);
  if (arguments.watch) TendForEver(tender, arguments, context);
  PrintTended(tender.Tend(), context);
}

void AddTendCommand(CLI::App* board, Context& context) {
  auto arguments = std::make_shared<TendArguments>();
  CLI::App* command = board->add_subcommand(
      "tend", "Add anchors and skip patches, so that a long run stays quick to join");
  command->footer(
      "Example: isthmus board tend --board /mnt/board --run grpo-7 --dir /srv/tend --watch");
  AddBoardOptions(command, &arguments->board);
  AddSignOption(command, &arguments->board);
  command->add_option("--dir", arguments->directory, "Directory for a copy of one version")
      ->required();
  command->add_option("--skip-every", arguments->policy.skip_every, "Versions to a skip patch")
      ->capture_default_str();
  command
      ->add_option("--anchor-at", arguments->policy.anchor_at,
                   "An anchor when the patches since the last are this part of a checkpoint")
      ->capture_default_str();
  command
      ->add_option("--most-between", arguments->policy.most_between, "And after so many versions")
      ->capture_default_str();
  command->add_flag("--watch", arguments->watch, "Go on as versions come");
  command->add_option("--poll-s", arguments->poll_s, "Seconds between two looks")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86'400}))
      ->capture_default_str();
  command->callback([arguments, &context] { RunTend(*arguments, context); });
}

}  // namespace

void AddUpkeep(CLI::App* board, Context& context) {
  AddAnchorCommand(board, context);
  AddPinCommands(board, context);
  AddCleanCommand(board, context);
  AddTendCommand(board, context);
}

void AddKey(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("key", "Keys that versions are signed with");
  command->require_subcommand(1);
  command->fallthrough();
  auto file = std::make_shared<std::string>();
  CLI::App* make = command->add_subcommand("new", "Make an Ed25519 key");
  make->footer("Example: isthmus key new trainer.key");
  make->add_option("FILE", *file, "Where to; the public key goes to FILE.pub")->required();
  make->callback([file, &context] { RunKeyNew(*file, context); });
}

}  // namespace isthmus::cli
