#include "isthmus/board/extra.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "isthmus/board/keys.h"
#include "isthmus/board/payload_json.h"
#include "isthmus/board/small_object.h"

namespace isthmus::board {
namespace {

constexpr std::string_view kAnchorName = "anchor.json";
constexpr std::string_view kPatchPrefix = "patch-";

Extra NameOf(const Manifest& manifest, const Payload& payload) {
  return {manifest.version, payload.kind, payload.base};
}

Payload ReadFields(const JsonFields& fields, const std::string& run, const Extra& extra,
                   const Sha256Digest& digest) {
  if (fields.Text("run") != run) fields.Refuse("run", "not that of the key");
  if (fields.Count("version") != extra.version) fields.Refuse("version", "not that of the key");
  if (fields.Digest("digest") != digest) fields.Refuse("digest", "not that of the version");
  Payload payload = ReadPayload(fields.Object("payload"), run, extra.version);
  if (payload.kind != extra.kind || payload.base != extra.base) {
    fields.Refuse("payload", "of another kind or base than the key says");
  }
  return payload;
}

}  // namespace

std::string ExtraKey(const std::string& run, const Extra& extra) {
  const std::string name =
      extra.kind == PayloadKind::kAnchor
          ? std::string(kAnchorName)
          : fmt::format("{}{:0{}}.json", kPatchPrefix, extra.base, kVersionDigits);
  return fmt::format("{}{:0{}}/{}", ExtraPrefix(run), extra.version, kVersionDigits, name);
}

std::optional<Extra> ExtraOf(const std::string& run, std::string_view key) {
  const std::string prefix = ExtraPrefix(run);
  if (!key.starts_with(prefix) || key.size() < prefix.size() + kVersionDigits + 1) {
    return std::nullopt;
  }
  Extra extra;
  const char* const begin = key.data() + prefix.size();
  std::from_chars(begin, begin + kVersionDigits, extra.version);
  const std::string_view name = key.substr(prefix.size() + kVersionDigits + 1);
  if (name != kAnchorName) {
    extra.kind = PayloadKind::kPatch;
    extra.base = NumberIn(name, kPatchPrefix, kVersionDigits).value_or(kNoVersion);
    if (extra.base == kNoVersion || extra.base >= extra.version) return std::nullopt;
  }
  // What was read may be less than all that stands there.
  if (extra.version == kNoVersion || ExtraKey(run, extra) != key) return std::nullopt;
  return extra;
}

std::vector<Extra> ListExtras(const Board& board, const std::string& run) {
  CheckRunName(run);
  std::vector<Extra> extras;
  for (const std::string& key : board.store().List(ExtraPrefix(run))) {
    if (const std::optional<Extra> extra = ExtraOf(run, key)) extras.push_back(*extra);
  }
  std::ranges::sort(extras);
  return extras;
}

std::optional<Payload> ReadExtra(const Board& board, const std::string& run, const Extra& extra,
                                 const Sha256Digest& digest) {
  const std::string key = ExtraKey(run, extra);
  const std::optional<std::string> text = board.ReadChecked(key);
  if (!text) return std::nullopt;
  return ReadText(board.store(), key, *text,
                  [&](const JsonFields& fields) { return ReadFields(fields, run, extra, digest); });
}

bool AddExtra(Board& board, const Manifest& manifest, const Payload& payload) {
  const Extra extra = NameOf(manifest, payload);
  const std::string key = ExtraKey(manifest.run, extra);
  const boost::json::object object = {{"format", kBoardFormat},
                                      {"run", manifest.run},
                                      {"version", manifest.version},
                                      {"digest", FormatSha256(manifest.digest)},
                                      {"payload", ToJson(payload)},
                                      {"created_at", FormatTime(SystemClock().Now())},
                                      {"producer", "isthmus " ISTHMUS_VERSION}};
  const std::string text = board.Signed(key, ToText(object));
  ReadText(board.store(), key, text, [&](const JsonFields& fields) {
    return ReadFields(fields, manifest.run, extra, manifest.digest);
  });
  return board.store().Create(key, AsBytes(text));
}

}  // namespace isthmus::board
