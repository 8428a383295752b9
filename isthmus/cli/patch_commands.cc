// diff and apply: patches in files, without a board.
#include <fmt/format.h>

#include "isthmus/cli/command.h"
#include "isthmus/cli/encoding_option.h"
#include "isthmus/codec/diff.h"
#include "isthmus/replica/patch_file.h"

namespace isthmus::cli {
namespace {

struct DiffOptions {
  std::string old_checkpoint;
  std::string new_checkpoint;
  std::string output;
  EncodingOption encoding;
};

// A patch file is whole or absent.
uint64_t WritePart(codec::PartBuilder* part, const codec::VersionPair& versions,
                   const fs::path& path) {
  if (Exists(path) && !fs::is_regular_file(path)) {
    Throw(ErrorCode::kInvalid, "write {}: exists and is not a file", path.string());
  }
  AtomicFile file(path);
  const uint64_t bytes = part->Finish(versions, [&file](ByteSpan piece) { file.Write(piece); });
  file.Commit();
  return bytes;
}

struct DiffReport {
  codec::DiffResult diff;
  uint64_t checkpoint_bytes = 0;
  uint64_t patch_bytes = 0;
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
        fmt::format("{}{} ({} tensors)", encoding_text.empty() ? "" : ", ", name, count);
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
  const auto base = tensor::Checkpoint::Open(options.old_checkpoint);
  const auto next = tensor::Checkpoint::Open(options.new_checkpoint);
  codec::PartBuilder part;
  DiffReport report;
  report.diff =
      codec::DiffCheckpoints(base, next, options.encoding.policy(), context.pool(),
                             *context.progress, [&part](codec::TensorDiff change) {
                               part.AddTensor(std::move(change.entry), std::move(change.payloads));
                             });
  codec::AddFileChanges(next, report.diff.base, report.diff.next, &part);
  report.checkpoint_bytes = next.total_bytes();
  report.patch_bytes =
      WritePart(&part, {report.diff.base.Digest(), report.diff.next.Digest()}, options.output);
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
