#include "isthmus/board/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"
#include "isthmus/board/payload_json.h"
#include "isthmus/store/store.h"

namespace isthmus::board {
namespace {

namespace json = boost::json;

constexpr size_t kMaxRunNameBytes = 128;

json::array ToJson(const std::vector<Payload>& payloads) {
  json::array array;
  for (const Payload& payload : payloads) array.push_back(ToJson(payload));
  return array;
}

json::object ToJson(const std::map<std::string, Sha256Digest>& files) {
  json::object object;
  for (const auto& [path, digest] : files) object[path] = FormatSha256(digest);
  return object;
}

json::object ToJson(const std::map<std::string, std::string>& meta) {
  json::object object;
  for (const auto& [key, value] : meta) object[key] = value;
  return object;
}

json::object ToJson(const ForkPoint& fork) {
  return {{"run", fork.run}, {"version", fork.version}};
}

std::string ReadRun(const JsonFields& fields) {
  std::string run = fields.Text("run");
  try {
    CheckRunName(run);
  } catch (const Error& error) {
    fields.Refuse("run", error.what());
  }
  return run;
}

ForkPoint ReadFork(const JsonFields& fields, const Manifest& manifest) {
  if (manifest.version != 1) {
    fields.Refuse("fork",
                  fmt::format("of version {}, only version 1 may have one", manifest.version));
  }
  const JsonFields fork = fields.Object("fork");
  ForkPoint point = {ReadRun(fork), fork.Count("version", 1, kMaxVersion)};
  if (point.run == manifest.run) fork.Refuse("run", "the run itself, expected another one");
  return point;
}

std::map<std::string, Sha256Digest> ReadFiles(const JsonFields& fields) {
  std::map<std::string, Sha256Digest> files;
  for (const std::string& path : fields.Keys()) {
    CheckPath(fields, path, path);
    files[path] = fields.Digest(path);
  }
  return files;
}

std::map<std::string, std::string> ReadMeta(const JsonFields& fields) {
  std::map<std::string, std::string> meta;
  for (const std::string& key : fields.Keys()) meta[key] = fields.Text(key);
  return meta;
}

void ReadCounts(const JsonFields& fields, Manifest* manifest) {
  manifest->tensors = fields.Count("tensors");
  manifest->elements = fields.Count("elements");
  manifest->changed = fields.Count("changed");
  manifest->checkpoint_bytes = fields.Count("checkpoint_bytes");
}

}  // namespace

void CheckRunName(std::string_view run) {
  // A key of one segment has the same alphabet.
  if (store::IsKey(run) && run.size() <= kMaxRunNameBytes && run.find('/') == run.npos) return;
  Throw(ErrorCode::kInvalid,
        "run name {:?}: expected 1 to {} characters of [A-Za-z0-9._-], not beginning with '.'",
        run.substr(0, 256), kMaxRunNameBytes);
}

uint64_t Payload::bytes() const {
  uint64_t sum = 0;
  for (const PayloadPart& part : parts) sum += part.bytes;
  return sum;
}

bool Manifest::has_anchor() const {
  return std::ranges::find(payloads, PayloadKind::kAnchor, &Payload::kind) != payloads.end();
}

uint64_t Manifest::payload_bytes() const {
  uint64_t sum = 0;
  for (const Payload& payload : payloads) sum += payload.bytes();
  return sum;
}

std::string Manifest::Serialize() const {
  json::object object = {{"format", kBoardFormat}, {"run", run}, {"version", version}};
  object["parent"] = parent == kNoVersion ? json::value(nullptr) : json::value(parent);
  if (fork) object["fork"] = ToJson(*fork);
  object["epoch"] = epoch;
  if (step) object["step"] = *step;
  object["view"] = json::object{{"id", view}};
  object["digest"] = FormatSha256(digest);
  object["tensors"] = tensors;
  object["elements"] = elements;
  object["changed"] = changed;
  object["checkpoint_bytes"] = checkpoint_bytes;
  object["payloads"] = ToJson(payloads);
  object["files"] = ToJson(files);
  object["meta"] = ToJson(meta);
  object["created_at"] = FormatTime(created_at);
  object["producer"] = producer;
  return json::serialize(object) + "\n";
}

Manifest Manifest::Parse(std::string_view json) {
  if (json.size() > kMaxManifestBytes) {
    Throw(ErrorCode::kCorrupt, "manifest of {} bytes, at most {} allowed", json.size(),
          kMaxManifestBytes);
  }
  const boost::json::value document = ParseJson(json);
  const JsonFields fields(document, "");
  fields.CheckFormat();
  Manifest manifest;
  manifest.run = ReadRun(fields);
  manifest.version = fields.Count("version", 1, kMaxVersion);
  if (fields.Has("parent")) manifest.parent = ReadEarlier(fields, "parent", manifest.version);
  if (fields.Has("fork")) manifest.fork = ReadFork(fields, manifest);
  manifest.epoch = fields.Count("epoch", 1);
  if (fields.Has("step")) manifest.step = fields.Integer("step");
  manifest.view = fields.Object("view").Text("id");
  manifest.digest = fields.Digest("digest");
  ReadCounts(fields, &manifest);
  const std::string fork_run = manifest.fork ? manifest.fork->run : "";
  for (const JsonFields& payload : fields.Objects("payloads")) {
    manifest.payloads.push_back(ReadPayload(payload, manifest.run, manifest.version, fork_run));
  }
  manifest.files = ReadFiles(fields.Object("files"));
  manifest.meta = ReadMeta(fields.Object("meta"));
  manifest.created_at = fields.Time("created_at");
  manifest.producer = fields.Text("producer");
  return manifest;
}

}  // namespace isthmus::board
