// diff, squash and apply: patches in files, without a board.
#include <fmt/format.h>

#include <deque>

#include "isthmus/base/error.h"
#include "isthmus/base/mapped_file.h"
#include "isthmus/cli/command.h"
#include "isthmus/cli/encoding_option.h"
#include "isthmus/codec/diff.h"
#include "isthmus/replica/diff_file.h"
#include "isthmus/replica/patch_file.h"

namespace isthmus::cli {
namespace {

struct DiffOptions {
  std::string old_checkpoint;
  std::string new_checkpoint;
  std::string output;
  EncodingOption encoding;
};

struct DiffReport : replica::DiffFileResult {
  double seconds = 0;

  double density() const {
    return diff.units == 0 ? 0
                           : static_cast<double>(diff.changed) / static_cast<double>(diff.units);
  }
  double ratio() const {
    return static_cast<double>(checkpoint_bytes) / static_cast<double>(patch_bytes);
  }
  double bits_per_change() const {
    return diff.changed == 0
               ? 0
               : 8 * static_cast<double>(patch_bytes) / static_cast<double>(diff.changed);
  }
};

void PrintDiff(const Context& context, const DiffReport& report) {
  json::object encodings;
  std::string encoding_text;
  for (const auto& [name, count] : report.diff.encodings) {
    encodings[name] = count;
    encoding_text +=
        fmt::format("{}{} ({} chunks)", encoding_text.empty() ? "" : ", ", name, count);
  }
  if (context.json) {
    return PrintJson({{"elements", report.diff.units},
                      {"changed", report.diff.changed},
                      {"tensors_changed", report.diff.tensors_changed},
                      {"density", report.density()},
                      {"checkpoint_bytes", report.checkpoint_bytes},
                      {"patch_bytes", report.patch_bytes},
                      {"ratio", report.ratio()},
                      {"bits_per_change", report.bits_per_change()},
                      {"seconds", report.seconds},
                      {"encodings", encodings}});
  }
  Facts facts;
  facts.Add("changed", fmt::format("{} of {} elements ({}) in {} tensors",
                                   FormatCount(report.diff.changed), FormatCount(report.diff.units),
                                   FormatPercent(report.density()), report.diff.tensors_changed));
  facts.Add("patch", fmt::format("{}, {:.1f} x smaller than the checkpoint ({})",
                                 FormatBytes(report.patch_bytes), report.ratio(),
                                 FormatBytes(report.checkpoint_bytes)));
  facts.Add("per change", fmt::format("{:.2f} bits", report.bits_per_change()));
  if (!encoding_text.empty()) facts.Add("encoding", encoding_text);
  facts.Add("time", FormatSeconds(report.seconds));
  facts.Print();
}

void RunDiff(const DiffOptions& options, Context& context) {
  const MonotonicTime start = SystemClock().Monotonic();
  DiffReport report;
  static_cast<replica::DiffFileResult&>(report) =
      replica::DiffToFile(options.old_checkpoint, options.new_checkpoint, options.output,
                          options.encoding.policy(), context.pool(), *context.progress);
  report.seconds = SecondsSince(start);
  PrintDiff(context, report);
}

struct SquashOptions {
  std::string base;
  std::vector<std::string> patches;
  std::string output;
  EncodingOption encoding;
};

// Patch files of a chain, open.
class PatchChain {
 public:
  explicit PatchChain(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) Add(path);
  }

  std::vector<codec::Patch> patches() const {
    std::vector<codec::Patch> patches;
    patches.reserve(parts_.size());
    for (const codec::Part& part : parts_) patches.push_back({&part});
    return patches;
  }
  const Sha256Digest& base() const { return parts_.front().versions()->base; }
  const Sha256Digest& target() const { return parts_.back().versions()->target; }

 private:
  void Add(const std::string& path) {
    maps_.emplace_back(path, Access::kRead);
    try {
      codec::Part part = codec::Part::Open(maps_.back().bytes());
      if (!part.versions()) {
        Throw(ErrorCode::kInvalid,
              "a part of a board's version, which does not say what it is for");
      }
      if (!parts_.empty() && part.versions()->base != target()) {
        Throw(ErrorCode::kCorrupt, "it applies to {}, the patch before it leads to {}",
              FormatSha256(part.versions()->base), FormatSha256(target()));
      }
      parts_.push_back(std::move(part));
    } catch (const Error& error) {
      throw error.Annotated("read " + path);
    }
  }

  std::deque<MappedFile> maps_;
  std::deque<codec::Part> parts_;
};

void CheckBase(const std::string& path, const Sha256Digest& found, const Sha256Digest& expected) {
  if (found == expected) return;
  Throw(ErrorCode::kCorrupt, "squash {}: wrong base: the patches apply to {}, this is {}", path,
        FormatSha256(expected), FormatSha256(found));
}

// On a wrong base payloads make no sense: then that is what the error must say.
codec::DiffResult Squash(const tensor::Checkpoint& base, const PatchChain& chain,
                         codec::EncodingPolicy policy, codec::PartBuilder* part, Context& context) {
  try {
    return codec::SquashPatches(
        base, chain.patches(), policy, context.pool(), *context.progress,
        [part](codec::ChunkDiff change) { codec::AddChunkDiff(std::move(change), part); }, part);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt) throw;
    CheckBase(base.directory().string(), tensor::DigestCheckpoint(base, context.pool()).Digest(),
              chain.base());
    throw;
  }
}

void RunSquash(const SquashOptions& options, Context& context) {
  const MonotonicTime start = SystemClock().Monotonic();
  const auto base = tensor::Checkpoint::Open(options.base);
  const PatchChain chain(options.patches);
  codec::PartBuilder part;
  DiffReport report;
  report.diff = Squash(base, chain, options.encoding.policy(), &part, context);
  CheckBase(options.base, report.diff.base.Digest(), chain.base());
  if (report.diff.next.Digest() != chain.target()) {
    Throw(ErrorCode::kCorrupt, "squash {}: the patches lead to {}, but claim {}", options.base,
          FormatSha256(report.diff.next.Digest()), FormatSha256(chain.target()));
  }
  report.checkpoint_bytes = base.total_bytes();
  report.patch_bytes =
      replica::WritePatchFile(&part, {chain.base(), chain.target()}, options.output);
  report.seconds = SecondsSince(start);
  PrintDiff(context, report);
}

struct ApplyOptions {
  std::string patch;
  std::string checkpoint;
  std::string output;
};

void RunApply(const ApplyOptions& options, Context& context) {
  const MonotonicTime start = SystemClock().Monotonic();
  const replica::PatchFileResult result =
      options.output.empty()
          ? replica::ApplyPatchInPlace(options.patch, options.checkpoint, context.pool(),
                                       *context.progress)
          : replica::ApplyPatchTo(options.patch, options.checkpoint, options.output, context.pool(),
                                  *context.progress);
  const double seconds = SecondsSince(start);
  PrintNotes(result.notes);
  if (context.json) {
    return PrintJson({{"tensors", result.tensors},
                      {"changed", result.changed},
                      {"verified", result.verified},
                      {"seconds", seconds}});
  }
  Facts facts;
  facts.Add("changed",
            fmt::format("{} elements in {} tensors", FormatCount(result.changed), result.tensors));
  facts.Add("verified", fmt::format("{} tensors", result.verified));
  facts.Add("time", FormatSeconds(seconds));
  facts.Print();
}

}  // namespace

void AddDiff(CLI::App& app, Context& context) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand("diff", "Compare two checkpoints, write one patch file");
  command->footer("Example: isthmus diff step-37 step-38 -o step-38.patch");
  command->add_option("OLD", options->old_checkpoint, "Checkpoint directory")->required();
  command->add_option("NEW", options->new_checkpoint, "Checkpoint directory")->required();
  command->add_option("-o,--output", options->output, "Patch file to write")->required();
  options->encoding.AddTo(command);
  command->callback([options, &context] { RunDiff(*options, context); });
}

void AddSquash(CLI::App& app, Context& context) {
  auto options = std::make_shared<SquashOptions>();
  CLI::App* command =
      app.add_subcommand("squash", "Make one patch file of several that follow each other");
  command->footer("Example: isthmus squash step-37 step-38.patch step-39.patch -o skip.patch");
  command->add_option("BASE", options->base, "Checkpoint that the first patch applies to")
      ->required();
  command->add_option("PATCH", options->patches, "Patch files, oldest first")->required();
  command->add_option("-o,--output", options->output, "Patch file to write")->required();
  options->encoding.AddTo(command);
  command->callback([options, &context] { RunSquash(*options, context); });
}

void AddApply(CLI::App& app, Context& context) {
  auto options = std::make_shared<ApplyOptions>();
  CLI::App* command = app.add_subcommand(
      "apply", "Apply a patch file to a checkpoint, in place (journaled) or into a new directory");
  command->footer("Example: isthmus apply step-38.patch my-checkpoint");
  command->add_option("PATCH", options->patch, "Patch file")->required();
  command->add_option("CHECKPOINT", options->checkpoint, "Checkpoint directory")->required();
  command->add_option("-o,--output", options->output, "New directory for the result");
  command->callback([options, &context] { RunApply(*options, context); });
}

}  // namespace isthmus::cli
