#include "isthmus/board/payload_json.h"

#include <fmt/format.h>

#include <set>

#include "isthmus/base/error.h"
#include "isthmus/board/keys.h"
#include "isthmus/codec/part.h"
#include "isthmus/store/store.h"

namespace isthmus::board {
namespace {

namespace json = boost::json;

json::object ToJson(const PayloadPart& part) {
  json::object object = {
      {"key", part.key}, {"bytes", part.bytes}, {"sha256", FormatSha256(part.sha256)}};
  if (!part.path.empty()) object["path"] = part.path;
  return object;
}

// A reader fetches what an entry names: an entry of one run must not reach into any other.
void CheckPartKey(const JsonFields& fields, const std::string& key, const std::string& run,
                  const std::string& fork_run) {
  if (!store::IsKey(key)) fields.Refuse("key", fmt::format("{:?} is not a key", key));
  if (key.starts_with(DataPrefix(run))) return;
  if (!fork_run.empty() && key.starts_with(DataPrefix(fork_run))) return;
  fields.Refuse("key", fmt::format("{:?} does not begin with {}{}{}", key, DataPrefix(run),
                                   fork_run.empty() ? "" : " or ",
                                   fork_run.empty() ? "" : DataPrefix(fork_run)));
}

PayloadPart ReadPart(const JsonFields& fields, const std::string& run, const std::string& fork_run,
                     PayloadKind kind) {
  PayloadPart part;
  part.key = fields.Text("key");
  CheckPartKey(fields, part.key, run, fork_run);
  part.bytes = fields.Count("bytes");
  part.sha256 = fields.Digest("sha256");
  if (kind == PayloadKind::kAnchor) {
    part.path = fields.Text("path");
    CheckPath(fields, "path", part.path);
  } else if (fields.Has("path")) {
    fields.Refuse("path", "only the parts of an anchor have one");
  }
  return part;
}

PayloadKind ReadKind(const JsonFields& fields) {
  const std::string kind = fields.Text("kind");
  if (kind == "anchor") return PayloadKind::kAnchor;
  if (kind == "patch") return PayloadKind::kPatch;
  fields.Refuse("kind", fmt::format("{:?}, expected anchor or patch", kind.substr(0, 64)));
}

// What holds for the parts of a payload together: their sum is a number, and an anchor says once
// what a file is.
void CheckParts(const JsonFields& fields, const Payload& payload) {
  uint64_t bytes = 0;
  std::set<std::string_view> paths;
  for (const PayloadPart& part : payload.parts) {
    if (!CheckedAdd(bytes, part.bytes, &bytes)) fields.Refuse("parts", "over 2^64 bytes together");
    if (!part.path.empty() && !paths.insert(part.path).second) {
      fields.Refuse("parts", fmt::format("two are the file {:?}", part.path));
    }
  }
}

}  // namespace

json::object ToJson(const Payload& payload) {
  json::object object;
  object["kind"] = payload.kind == PayloadKind::kAnchor ? "anchor" : "patch";
  if (payload.base != kNoVersion) object["base"] = payload.base;
  if (!payload.encoding.empty()) object["encoding"] = payload.encoding;
  json::array parts;
  for (const PayloadPart& part : payload.parts) parts.push_back(ToJson(part));
  object["parts"] = std::move(parts);
  return object;
}

VersionNumber ReadEarlier(const JsonFields& fields, std::string_view key, VersionNumber version) {
  const VersionNumber earlier = fields.Count(key);
  if (earlier == kNoVersion || earlier >= version) {
    fields.Refuse(key, fmt::format("{}, expected a version before {}", earlier, version));
  }
  return earlier;
}

void CheckPath(const JsonFields& fields, std::string_view key, std::string_view path) {
  try {
    codec::CheckFilePath(path);
  } catch (const Error& error) {
    fields.Refuse(key, error.what());
  }
}

Payload ReadPayload(const JsonFields& fields, const std::string& run, VersionNumber version,
                    const std::string& fork_run) {
  Payload payload;
  payload.kind = ReadKind(fields);
  if (payload.kind == PayloadKind::kPatch) {
    payload.base = ReadEarlier(fields, "base", version);
  } else if (fields.Has("base")) {
    fields.Refuse("base", "an anchor has none");
  }
  payload.encoding = fields.OptionalText("encoding");
  for (const JsonFields& part : fields.Objects("parts")) {
    payload.parts.push_back(ReadPart(part, run, fork_run, payload.kind));
  }
  CheckParts(fields, payload);
  return payload;
}

}  // namespace isthmus::board
