// inspect: a patch, checkpoint, replica, manifest or board, readable; and this program itself.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "isthmus/cli/command.h"
#include "isthmus/codec/part.h"
#include "isthmus/codec/simd.h"
#include "isthmus/replica/describe.h"
#include "isthmus/replica/state.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::cli {
namespace {

struct InspectOptions {
  StoreArguments store;
  std::string path;
  bool build = false;
};

std::string ShapeText(const tensor::Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

// Chunks, payload bytes and models by encoding; in all, the bits that a change takes.
void PrintChunks(const codec::Part& part) {
  struct Sum {
    uint64_t chunks = 0;
    uint64_t bytes = 0;
  };
  std::map<std::string_view, Sum> sums;
  uint64_t bytes = 0;
  for (const codec::ChunkEntry& entry : part.chunks()) {
    Sum& sum = sums[codec::EncodingName(entry.encoding)];
    ++sum.chunks;
    sum.bytes += entry.bytes;
    bytes += entry.bytes;
  }
  for (const auto& [name, sum] : sums) {
    fmt::print("chunks  {} {}, {} bytes\n", FormatCount(sum.chunks), name, FormatCount(sum.bytes));
  }
  uint64_t changed = 0;
  for (const codec::TensorEntry& entry : part.tensors()) changed += entry.changed;
  if (changed == 0) return;
  fmt::print("models  {}\nchanged {} units, {:.2f} bits of payload each\n", part.models().size(),
             FormatCount(changed), 8 * static_cast<double>(bytes) / static_cast<double>(changed));
}

void InspectPatch(const fs::path& path) {
  const MappedFile map(path, Access::kRead);
  const codec::Part part = codec::Part::Open(map.bytes());
  fmt::print("patch, {}\n", FormatBytes(map.bytes().size()));
  if (part.versions()) {
    fmt::print("base    {}\ntarget  {}\n", FormatSha256(part.versions()->base),
               FormatSha256(part.versions()->target));
  }
  PrintChunks(part);
  Table table({"tensor", "dtype", "shape", "changed"});
  for (const codec::TensorEntry& entry : part.tensors()) {
    table.Add({entry.name, std::string(tensor::DtypeName(entry.dtype)), ShapeText(entry.shape),
               FormatCount(entry.changed)});
  }
  table.Print();
  for (const codec::FileEntry& entry : part.files()) {
    fmt::print("file {}: {}, {} bytes\n", entry.path, replica::FileKindName(entry.kind),
               entry.bytes);
  }
}

void InspectCheckpoint(const fs::path& path, Context& context) {
  const auto checkpoint = tensor::Checkpoint::Open(path);
  const Sha256Digest digest =
      tensor::DigestCheckpoint(checkpoint, context.pool(), *context.progress).Digest();
  fmt::print("checkpoint, {}, {} tensors in {} shards\ndigest  {}\n",
             FormatBytes(checkpoint.total_bytes()), checkpoint.tensors().size(),
             checkpoint.shards().size(), FormatSha256(digest));
  Table table({"tensor", "dtype", "shape", "bytes", "shard"});
  for (const auto& tensor : checkpoint.tensors()) {
    table.Add({tensor.info.name, std::string(tensor::DtypeName(tensor.info.dtype)),
               ShapeText(tensor.info.shape), FormatCount(tensor.info.bytes()),
               checkpoint.shards()[tensor.shard].file});
  }
  table.Print();
}

void InspectReplica(const fs::path& path) {
  const replica::ControlPaths paths(path);
  const bool changing = Exists(paths.journal()) || Exists(paths.swap());
  const auto state = changing ? std::nullopt : replica::ReadState(paths);
  if (!state) return fmt::print("replica, at no version{}\n", changing ? " (changing)" : "");
  fmt::print("replica at version {} of run {}\nboard   {}\ndigest  {}\n", state->version,
             state->run, state->board, FormatSha256(state->digest));
}

void InspectManifest(const fs::path& path) {
  const board::Manifest manifest = board::Manifest::Parse(ReadFile(path, board::kMaxManifestBytes));
  Facts facts;
  facts.Add("manifest", fmt::format("version {} of run {}", manifest.version, manifest.run));
  if (manifest.fork) {
    facts.Add("fork of",
              fmt::format("version {} of run {}", manifest.fork->version, manifest.fork->run));
  }
  facts.Add("digest", FormatSha256(manifest.digest));
  facts.Add("view", manifest.view);
  facts.Add("changed",
            fmt::format("{} of {}", FormatCount(manifest.changed), FormatCount(manifest.elements)));
  for (const board::Payload& payload : manifest.payloads) {
    const bool anchor = payload.kind == board::PayloadKind::kAnchor;
    facts.Add(
        anchor ? "anchor" : fmt::format("patch from {}", payload.base),
        fmt::format("{} in {} objects{}{}", FormatBytes(payload.bytes()), payload.parts.size(),
                    payload.encoding.empty() ? "" : ", ", payload.encoding));
  }
  facts.Print();
}

void InspectBoard(const std::string& location, const store::StoreOptions& store) {
  const board::Board board = board::Board::Open(store::OpenStore(location, store));
  fmt::print("board {}\n", board.uuid());
  Table table({"run", "versions"});
  for (const std::string& run : board.Runs()) {
    table.Add({run, fmt::format("{}", board.Head(run))});
  }
  table.Print();
}

void InspectBuild(Context& context) {
  const std::vector<std::string> targets = codec::SimdTargets();
  if (context.json) {
    return PrintJson({{"kind", "build"},
                      {"version", ISTHMUS_VERSION},
                      {"compiler", __VERSION__},
                      {"simd", codec::SimdTarget()},
                      {"simd_targets", json::array(targets.begin(), targets.end())},
                      {"part_format", fmt::format("{}.{}", codec::kPartMajor, codec::kPartMinor)},
                      {"board_format", board::kBoardFormat}});
  }
  Facts facts;
  facts.Add("version", ISTHMUS_VERSION);
  facts.Add("compiler", __VERSION__);
  facts.Add("SIMD", fmt::format("{} of {}", codec::SimdTarget(), fmt::join(targets, ", ")));
  facts.Add("part format", fmt::format("{}.{}", codec::kPartMajor, codec::kPartMinor));
  facts.Add("board format", fmt::format("{}", board::kBoardFormat));
  facts.Print();
}

void InspectPath(const std::string& path, const store::StoreOptions& store, Context& context) {
  switch (replica::KindOf(path)) {
    case replica::PathKind::kPatch:
      return InspectPatch(path);
    case replica::PathKind::kManifest:
      return InspectManifest(path);
    case replica::PathKind::kBoard:
      return InspectBoard(path, store);
    case replica::PathKind::kReplica:
      return InspectReplica(path);
    case replica::PathKind::kCheckpoint:
      return InspectCheckpoint(path, context);
  }
}

void RunInspect(const InspectOptions& options, Context& context) {
  if (options.build) return InspectBuild(context);
  if (options.path.empty()) Throw(ErrorCode::kInvalid, "inspect: name PATH or --build");
  try {
    const store::StoreOptions store = options.store.Options();
    if (!context.json) return InspectPath(options.path, store, context);
    PrintJson(replica::Describe(options.path, store, context.pool(), *context.progress));
  } catch (const Error& error) {
    throw error.Annotated("inspect " + options.path);
  }
}

}  // namespace

void AddInspect(CLI::App& app, Context& context) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Show a patch, checkpoint, replica, manifest or board, readable");
  command->footer("Example: isthmus inspect step-38.patch");
  command->add_option("PATH", options->path, "What to look at; a board also by its URL");
  AddStoreOptions(command, &options->store);
  command->add_flag("--build", options->build, "Show this program's build");
  command->callback([options, &context] { RunInspect(*options, context); });
}

}  // namespace isthmus::cli
