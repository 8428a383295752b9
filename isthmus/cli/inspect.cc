// inspect: a patch, checkpoint, replica, manifest or board, readable; and this program itself.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "isthmus/cli/command.h"
#include "isthmus/codec/part.h"
#include "isthmus/codec/simd.h"
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

json::array ShapeJson(const tensor::Shape& shape) {
  return json::array(shape.begin(), shape.end());
}

std::string_view KindName(codec::FileKind kind) {
  switch (kind) {
    case codec::FileKind::kContent:
      return "content";
    case codec::FileKind::kRemoved:
      return "removed";
    case codec::FileKind::kShardHeader:
      return "shard header";
  }
  return "unknown";
}

json::array TensorsJson(const codec::Part& part) {
  json::array tensors;
  for (const codec::TensorEntry& entry : part.tensors()) {
    tensors.push_back({{"name", entry.name},
                       {"dtype", tensor::DtypeName(entry.dtype)},
                       {"shape", ShapeJson(entry.shape)},
                       {"changed", entry.changed},
                       {"sum_change", fmt::format("{:016x}", entry.sum_change)}});
  }
  return tensors;
}

json::array ChunksJson(const codec::Part& part) {
  json::array chunks;
  for (const codec::ChunkEntry& entry : part.chunks()) {
    json::object chunk = {{"number", entry.number},
                          {"encoding", codec::EncodingName(entry.encoding)},
                          {"bytes", entry.bytes}};
    if (codec::IsSparse(entry.encoding)) {
      chunk["model"] = entry.model;
      chunk["classes"] = part.models()[entry.model].classes.size();
    }
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

json::object PatchJson(const codec::Part& part) {
  json::array files;
  for (const codec::FileEntry& entry : part.files()) {
    files.push_back({{"path", entry.path}, {"kind", KindName(entry.kind)}, {"bytes", entry.bytes}});
  }
  json::object object = {{"kind", "patch"},
                         {"tensors", TensorsJson(part)},
                         {"chunks", ChunksJson(part)},
                         {"models", part.models().size()},
                         {"files", files}};
  if (part.versions()) {
    object["base"] = FormatSha256(part.versions()->base);
    object["target"] = FormatSha256(part.versions()->target);
  }
  return object;
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

void InspectPatch(const fs::path& path, Context& context) {
  const MappedFile map(path, Access::kRead);
  const codec::Part part = codec::Part::Open(map.bytes());
  if (context.json) return PrintJson(PatchJson(part));
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
    fmt::print("file {}: {}, {} bytes\n", entry.path, KindName(entry.kind), entry.bytes);
  }
}

void InspectCheckpoint(const fs::path& path, Context& context) {
  const auto checkpoint = tensor::Checkpoint::Open(path);
  const Sha256Digest digest =
      tensor::DigestCheckpoint(checkpoint, context.pool(), *context.progress).Digest();
  if (context.json) {
    json::array tensors;
    for (const auto& [info, shard] : checkpoint.tensors()) {
      tensors.push_back({{"name", info.name},
                         {"dtype", tensor::DtypeName(info.dtype)},
                         {"shape", ShapeJson(info.shape)},
                         {"bytes", info.bytes()},
                         {"shard", checkpoint.shards()[shard].file}});
    }
    return PrintJson({{"kind", "checkpoint"},
                      {"digest", FormatSha256(digest)},
                      {"bytes", checkpoint.total_bytes()},
                      {"tensors", tensors}});
  }
  fmt::print("checkpoint, {}, {} tensors in {} shards\ndigest  {}\n",
             FormatBytes(checkpoint.total_bytes()), checkpoint.tensors().size(),
             checkpoint.shards().size(), FormatSha256(digest));
  Table table({"tensor", "dtype", "shape", "bytes", "shard"});
  for (const auto& [info, shard] : checkpoint.tensors()) {
    table.Add({info.name, std::string(tensor::DtypeName(info.dtype)), ShapeText(info.shape),
               FormatCount(info.bytes()), checkpoint.shards()[shard].file});
  }
  table.Print();
}

void InspectReplica(const fs::path& path, Context& context) {
  const replica::ControlPaths paths(path);
  const bool changing = Exists(paths.journal()) || Exists(paths.swap());
  const auto state = changing ? std::nullopt : replica::ReadState(paths);
  if (context.json) {
    json::object object = {{"kind", "replica"}, {"version", nullptr}, {"changing", changing}};
    if (state) {
      object["board"] = state->board;
      object["run"] = state->run;
      object["version"] = state->version;
      object["digest"] = FormatSha256(state->digest);
    }
    return PrintJson(object);
  }
  if (!state) return fmt::print("replica, at no version{}\n", changing ? " (changing)" : "");
  fmt::print("replica at version {} of run {}\nboard   {}\ndigest  {}\n", state->version,
             state->run, state->board, FormatSha256(state->digest));
}

void InspectManifest(const std::string& text, Context& context) {
  const board::Manifest manifest = board::Manifest::Parse(text);
  if (context.json) {
    return PrintJson({{"kind", "manifest"}, {"manifest", json::parse(manifest.Serialize())}});
  }
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

void InspectBoard(const std::string& location, const store::StoreOptions& store, Context& context) {
  const board::Board board = board::Board::Open(store::OpenStore(location, store));
  json::array runs;
  Table table({"run", "versions"});
  for (const std::string& run : board.Runs()) {
    const board::VersionNumber head = board.Head(run);
    runs.push_back({{"run", run}, {"head", head}});
    table.Add({run, fmt::format("{}", head)});
  }
  if (context.json) return PrintJson({{"kind", "board"}, {"board", board.uuid()}, {"runs", runs}});
  fmt::print("board {}\n", board.uuid());
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

void InspectFile(const fs::path& path, Context& context) {
  const MappedFile map(path, Access::kRead);
  const std::string_view text = AsText(map.bytes());
  if (text.starts_with(codec::kPartMagic)) return InspectPatch(path, context);
  if (text.starts_with('{') && text.size() <= board::kMaxManifestBytes) {
    return InspectManifest(std::string(text), context);
  }
  Throw(ErrorCode::kInvalid, "neither a patch nor a manifest");
}

void InspectPath(const fs::path& path, Context& context) {
  if (!Exists(path)) Throw(ErrorCode::kNotFound, "does not exist");
  if (!fs::is_directory(path)) return InspectFile(path, context);
  if (Exists(path / "board.json")) return InspectBoard(path.string(), {}, context);
  if (Exists(replica::ControlPaths(path).marker())) return InspectReplica(path, context);
  InspectCheckpoint(path, context);
}

void RunInspect(const InspectOptions& options, Context& context) {
  if (options.build) return InspectBuild(context);
  if (options.path.empty()) Throw(ErrorCode::kInvalid, "inspect: name PATH or --build");
  try {
    if (options.path.find("://") != std::string::npos) {
      return InspectBoard(options.path, options.store.Options(), context);
    }
    InspectPath(options.path, context);
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
