#include "isthmus/replica/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <optional>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/base/mapped_file.h"
#include "isthmus/board/board.h"
#include "isthmus/replica/state.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::replica {
namespace {

namespace json = boost::json;

PathKind KindOfFile(const fs::path& path) {
  const MappedFile map(path, Access::kRead);
  const std::string_view text = AsText(map.bytes());
  if (text.starts_with(codec::kPartMagic)) return PathKind::kPatch;
  if (text.starts_with('{') && text.size() <= board::kMaxManifestBytes) return PathKind::kManifest;
  Throw(ErrorCode::kInvalid, "neither a patch nor a manifest");
}

json::array ShapeJson(const tensor::Shape& shape) {
  return json::array(shape.begin(), shape.end());
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
    files.push_back(
        {{"path", entry.path}, {"kind", FileKindName(entry.kind)}, {"bytes", entry.bytes}});
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

json::object DescribePatch(const fs::path& path) {
  const MappedFile map(path, Access::kRead);
  return PatchJson(codec::Part::Open(map.bytes()));
}

json::object DescribeCheckpoint(const fs::path& path, ThreadPool& pool, Progress& progress) {
  const auto checkpoint = tensor::Checkpoint::Open(path);
  json::array tensors;
  for (const auto& tensor : checkpoint.tensors()) {
    tensors.push_back({{"name", tensor.info.name},
                       {"dtype", tensor::DtypeName(tensor.info.dtype)},
                       {"shape", ShapeJson(tensor.info.shape)},
                       {"bytes", tensor.info.bytes()},
                       {"shard", checkpoint.shards()[tensor.shard].file}});
  }
  return {{"kind", "checkpoint"},
          {"digest", FormatSha256(tensor::DigestCheckpoint(checkpoint, pool, progress).Digest())},
          {"bytes", checkpoint.total_bytes()},
          {"tensors", std::move(tensors)}};
}

json::object DescribeReplica(const fs::path& path) {
  const ControlPaths paths(path);
  const bool changing = Exists(paths.journal()) || Exists(paths.swap());
  const auto state = changing ? std::nullopt : ReadState(paths);
  json::object object = {{"kind", "replica"}, {"version", nullptr}, {"changing", changing}};
  if (!state) return object;
  object["board"] = state->board;
  object["run"] = state->run;
  object["version"] = state->version;
  object["digest"] = FormatSha256(state->digest);
  return object;
}

json::object DescribeManifest(const fs::path& path) {
  const auto manifest = board::Manifest::Parse(ReadFile(path, board::kMaxManifestBytes));
  return {{"kind", "manifest"}, {"manifest", json::parse(manifest.Serialize())}};
}

json::object DescribeBoard(const std::string& location, const store::StoreOptions& store) {
  const auto board = board::Board::Open(store::OpenStore(location, store));
  json::array runs;
  for (const std::string& run : board.Runs()) {
    runs.push_back({{"run", run}, {"head", board.Head(run)}});
  }
  return {{"kind", "board"}, {"board", board.uuid()}, {"runs", std::move(runs)}};
}

}  // namespace

PathKind KindOf(const std::string& path) {
  if (path.find("://") != std::string::npos) return PathKind::kBoard;
  if (!Exists(path)) Throw(ErrorCode::kNotFound, "does not exist");
  if (!fs::is_directory(path)) return KindOfFile(path);
  if (Exists(fs::path(path) / "board.json")) return PathKind::kBoard;
  if (Exists(ControlPaths(path).marker())) return PathKind::kReplica;
  return PathKind::kCheckpoint;
}

std::string_view FileKindName(codec::FileKind kind) {
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

json::object Describe(const std::string& path, const store::StoreOptions& store, ThreadPool& pool,
                      Progress& progress) {
  switch (KindOf(path)) {
    case PathKind::kPatch:
      return DescribePatch(path);
    case PathKind::kManifest:
      return DescribeManifest(path);
    case PathKind::kBoard:
      return DescribeBoard(path, store);
    case PathKind::kReplica:
      return DescribeReplica(path);
    case PathKind::kCheckpoint:
      return DescribeCheckpoint(path, pool, progress);
  }
  Throw(ErrorCode::kInternal, "describe {}: no such kind", path);
}

}  // namespace isthmus::replica
