// inspect: a patch, checkpoint, replica, manifest or board, readable; and this program itself.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "isthmus/cli/command.h"
#include "isthmus/codec/part.h"
#include "isthmus/codec/scan.h"
#include "isthmus/replica/state.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::cli {
namespace {

struct InspectOptions {
  std::string path;
  bool build = false;
};

std::string ShapeText(const tensor::Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

json::array ShapeJson(const tensor::Shape& shape) {
  return json::array(shape.begin(), shape.end());
}

uint64_t PayloadBytes(const codec::TensorEntry& entry) {
  uint64_t bytes = 0;
  for (const codec::ChunkEntry& chunk : entry.chunks) bytes += chunk.bytes;
  return bytes;
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

json::object PatchJson(const codec::Part& part) {
  json::array tensors;
  for (const codec::TensorEntry& entry : part.tensors()) {
    tensors.push_back({{"name", entry.name},
                       {"dtype", tensor::DtypeName(entry.dtype)},
                       {"shape", ShapeJson(entry.shape)},
                       {"encoding", codec::EncodingName(entry.encoding)},
                       {"first_chunk", entry.first_chunk},
                       {"chunks", entry.chunks.size()},
                       {"changed", entry.changed},
                       {"bytes", PayloadBytes(entry)},
                       {"old_digest", entry.old_digest.Hex()},
                       {"new_digest", entry.new_digest.Hex()}});
  }
  json::array files;
  for (const codec::FileEntry& entry : part.files()) {
    files.push_back({{"path", entry.path}, {"kind", KindName(entry.kind)}, {"bytes", entry.bytes}});
  }
  json::object object = {{"kind", "patch"}, {"tensors", tensors}, {"files", files}};
  if (part.versions()) {
    object["base"] = FormatSha256(part.versions()->base);
    object["target"] = FormatSha256(part.versions()->target);
  }
  return object;
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
  Table table({"tensor", "dtype", "shape", "encoding", "changed", "bytes", "bits/change"});
  for (const codec::TensorEntry& entry : part.tensors()) {
    const uint64_t bytes = PayloadBytes(entry);
    table.Add({entry.name, std::string(tensor::DtypeName(entry.dtype)), ShapeText(entry.shape),
               std::string(codec::EncodingName(entry.encoding)), FormatCount(entry.changed),
               FormatCount(bytes),
               fmt::format("{:.2f}",
                           8 * static_cast<double>(bytes) / static_cast<double>(entry.changed))});
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

void InspectBoard(const std::string& path, Context& context) {
  const board::Board board = board::Board::Open(board::OpenStore(path));
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
  if (context.json) {
    return PrintJson({{"kind", "build"},
                      {"version", ISTHMUS_VERSION},
                      {"compiler", __VERSION__},
                      {"simd", codec::ScanTarget()},
                      {"part_format", fmt::format("{}.{}", codec::kPartMajor, codec::kPartMinor)},
                      {"board_format", board::kBoardFormat}});
  }
  Facts facts;
  facts.Add("version", ISTHMUS_VERSION);
  facts.Add("compiler", __VERSION__);
  facts.Add("SIMD", std::string(codec::ScanTarget()));
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
  if (Exists(path / "board.json")) return InspectBoard(path.string(), context);
  if (Exists(replica::ControlPaths(path).marker())) return InspectReplica(path, context);
  InspectCheckpoint(path, context);
}

void RunInspect(const InspectOptions& options, Context& context) {
  if (options.build) return InspectBuild(context);
  if (options.path.empty()) Throw(ErrorCode::kInvalid, "inspect: name PATH or --build");
  try {
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
  command->add_option("PATH", options->path, "What to look at");
  command->add_flag("--build", options->build, "Show this program's build");
  command->callback([options, &context] { RunInspect(*options, context); });
}

}  // namespace isthmus::cli
