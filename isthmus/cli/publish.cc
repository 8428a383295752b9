// publish: a version of a run, from one process or from one rank of many.
#include "isthmus/publish/publisher.h"

#include <fmt/format.h>

#include "isthmus/cli/command.h"
#include "isthmus/cli/encoding_option.h"
#include "isthmus/cli/manifest_facts.h"
#include "isthmus/publish/baseline_place.h"
#include "isthmus/ranks/rank_publisher.h"

namespace isthmus::cli {
namespace {

using board::Manifest;

struct PublishArguments {
  std::string checkpoint;
  BoardOptions board;
  std::string baseline;
  EncodingOption encoding;
  std::optional<int64_t> step;
  std::vector<std::string> meta;
  std::optional<uint32_t> rank;
  std::optional<uint32_t> ranks;
  uint64_t rank_deadline_s = 600;
};

std::map<std::string, std::string> ParseMeta(const std::vector<std::string>& items) {
  std::map<std::string, std::string> meta;
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      Throw(ErrorCode::kInvalid, "read --meta {}: expected KEY=VALUE", item);
    }
    meta[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return meta;
}

fs::path BaselineOf(const PublishArguments& arguments, const board::Board& board) {
  if (!arguments.baseline.empty()) return arguments.baseline;
  return publish::DefaultBaseline(board, arguments.board.run, arguments.rank);
}

json::object PublishedObject(const Manifest& manifest, const fs::path& baseline, double seconds) {
  return {{"run", manifest.run},
          {"version", manifest.version},
          {"parent", board::VersionOrNull(manifest.parent)},
          {"kind", IsAnchor(manifest) ? "anchor" : "patch"},
          {"elements", manifest.elements},
          {"changed", manifest.changed},
          {"density", DensityOf(manifest)},
          {"payload_bytes", manifest.payload_bytes()},
          {"checkpoint_bytes", manifest.checkpoint_bytes},
          {"digest", FormatSha256(manifest.digest)},
          {"baseline", baseline.string()},
          {"seconds", seconds}};
}

void AddPatchFacts(const Manifest& manifest, Facts* facts) {
  facts->Add("changed",
             fmt::format("{} of {} elements ({})", FormatCount(manifest.changed),
                         FormatCount(manifest.elements), FormatPercent(DensityOf(manifest))));
  facts->Add("payload", fmt::format("patch, {} of {}", FormatBytes(manifest.payload_bytes()),
                                    FormatBytes(manifest.checkpoint_bytes)));
}

void PrintPublished(const Context& context, const publish::PublishResult& result, double seconds,
                    const fs::path& baseline) {
  const Manifest& manifest = result.manifest;
  PrintNotes(result.notes);
  if (context.json) {
    json::object object = PublishedObject(manifest, baseline, seconds);
    object["anchor_reason"] = result.anchor_reason;
    return PrintJson(object);
  }
  Facts facts;
  facts.Add("version", fmt::format("{} of run {}", manifest.version, manifest.run));
  if (IsAnchor(manifest)) {
    facts.Add("payload", fmt::format("anchor, {}: {}", FormatBytes(manifest.payload_bytes()),
                                     result.anchor_reason));
  } else {
    AddPatchFacts(manifest, &facts);
  }
  facts.Add("baseline", baseline.string());
  facts.Add("time", FormatSeconds(seconds));
  facts.Print();
}

void PublishWhole(const PublishArguments& arguments, board::Board& board, const fs::path& baseline,
                  Context& context) {
  const MonotonicTime start = MonotonicNow();
  publish::PublishOptions options;
  options.encoding = arguments.encoding.policy();
  options.step = arguments.step;
  options.meta = ParseMeta(arguments.meta);
  publish::Publisher publisher(board, arguments.board.run, baseline, context.pool(),
                               *context.progress);
  const publish::PublishResult result = publisher.Publish(arguments.checkpoint, options);
  PrintPublished(context, result, SecondsSince(start), baseline);
}

void PrintRankPublished(const Context& context, const PublishArguments& arguments,
                        const ranks::RankPublishResult& result, double seconds,
                        const fs::path& baseline) {
  PrintNotes(result.notes);
  if (context.json) {
    json::object object = PublishedObject(result.manifest, baseline, seconds);
    object["rank"] = *arguments.rank;
    object["ranks"] = *arguments.ranks;
    object["uploaded_bytes"] = result.uploaded_bytes;
    object["sent_bytes"] = result.sent_bytes;
    object["baseline_bytes"] = result.baseline_bytes;
    return PrintJson(object);
  }
  Facts facts;
  facts.Add("version", fmt::format("{} of run {}", result.manifest.version, result.manifest.run));
  AddPatchFacts(result.manifest, &facts);
  facts.Add("rank", fmt::format("{} of {}: uploaded {}, sent {} to other ranks", *arguments.rank,
                                *arguments.ranks, FormatBytes(result.uploaded_bytes),
                                FormatBytes(result.sent_bytes)));
  facts.Add("baseline",
            fmt::format("{}: {}", baseline.string(), FormatBytes(result.baseline_bytes)));
  facts.Add("time", FormatSeconds(seconds));
  facts.Print();
}

void PublishShare(const PublishArguments& arguments, board::Board& board, const fs::path& baseline,
                  Context& context) {
  const MonotonicTime start = MonotonicNow();
  const auto share = ranks::ShareDirectory::Open(arguments.checkpoint);
  ranks::RankPublishOptions options;
  options.encoding = arguments.encoding.policy();
  options.step = *arguments.step;
  options.meta = ParseMeta(arguments.meta);
  options.deadline = std::chrono::seconds(arguments.rank_deadline_s);
  ranks::RankPublisher publisher(board, arguments.board.run, {*arguments.rank, *arguments.ranks},
                                 baseline, context.pool(), *context.progress);
  const ranks::RankPublishResult result =
      publisher.Publish(share.tensors(), options, [&share] { share.CheckUnchanged(); });
  PrintRankPublished(context, arguments, result, SecondsSince(start), baseline);
}

void RunPublish(const PublishArguments& arguments, Context& context) {
  if (arguments.ranks && !arguments.step) {
    Throw(
        ErrorCode::kInvalid,
        "publish with --ranks {}: it needs --step, by which ranks know that they publish the same",
        *arguments.ranks);
  }
  board::Board board = arguments.board.Open();
  const fs::path baseline = BaselineOf(arguments, board);
  publish::RefuseOverlap(arguments.checkpoint, baseline);  // before the baseline is touched
  if (arguments.ranks) {
    PublishShare(arguments, board, baseline, context);
  } else {
    PublishWhole(arguments, board, baseline, context);
  }
}

void AddRankOptions(CLI::App* command, PublishArguments* arguments) {
  auto* rank = command->add_option(
      "--rank", arguments->rank,
      "Publish together with other ranks, this one's number from 0 on; CHECKPOINT is its share");
  auto* ranks = command->add_option("--ranks", arguments->ranks, "How many ranks there are");
  rank->needs(ranks);
  ranks->needs(rank);
  command
      ->add_option("--rank-deadline-s", arguments->rank_deadline_s,
                   "Give up waiting for other ranks after so many seconds")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
}

}  // namespace

void AddPublish(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<PublishArguments>();
  CLI::App* command =
      app.add_subcommand("publish", "Publish a checkpoint as the next version of a run");
  command->footer("Example: isthmus publish step-38 --board /mnt/board --run grpo-7 --step 38");
  command->add_option("CHECKPOINT", arguments->checkpoint, "Checkpoint directory")->required();
  AddBoardOptions(command, &arguments->board);
  AddSignOption(command, &arguments->board);
  command->add_option("--step", arguments->step, "The trainer's optimizer step");
  command->add_option("--meta", arguments->meta, "KEY=VALUE to keep with the version; repeatable")
      ->allow_extra_args(false);
  arguments->encoding.AddTo(command);
  command->add_option("--baseline", arguments->baseline,
                      "Directory for this publisher's copy of the last version (default: "
                      "in the user's cache)");
  AddRankOptions(command, arguments.get());
  command->callback([arguments, &context] { RunPublish(*arguments, context); });
}

}  // namespace isthmus::cli
