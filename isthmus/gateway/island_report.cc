#include "isthmus/gateway/island_report.h"

#include <algorithm>
#include <array>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"

namespace isthmus::gateway {
namespace {

namespace json = boost::json;
using board::JsonFields;

constexpr size_t kMaxReasonBytes = 1000;
// What is kept for the dashboard.
constexpr size_t kMaxUpdateMembers = 64;
constexpr size_t kMaxKeyBytes = 64;
constexpr size_t kMaxVersions = 50;
constexpr size_t kMaxMetaBytes = 1024;

constexpr std::array<std::string_view, 8> kPhases = {
    "booting", "catching-up", "ready", "staging", "committing", "poisoned", "reseeding", "stopped"};

// The first bytes of it, not ending within a character.
std::string Shortened(std::string_view text) {
  if (text.size() <= kMaxReasonBytes) return std::string(text);
  size_t size = kMaxReasonBytes;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return std::string(text.substr(0, size));
}

VersionNumber VersionIn(const JsonFields& fields, std::string_view key) {
  return fields.Has(key) ? fields.Count(key, 0, board::kMaxVersion) : kNoVersion;
}

uint64_t OptionalCount(const JsonFields& fields, std::string_view key) {
  return fields.Has(key) ? fields.Count(key) : 0;
}

bool Truth(const json::object& object, const JsonFields& fields, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_bool()) fields.Refuse(key, "expected true or false");
  return value->get_bool();
}

void ReadBoard(const JsonFields& fields, IslandReport* report) {
  if (!fields.Has("board")) return;
  const JsonFields board = fields.Object("board");
  report->head = VersionIn(board, board.Has("newest") ? "newest" : "head");
}

// Numbers, truth values, null and short texts.
bool IsPlain(const json::value& value) {
  if (value.is_string()) return value.get_string().size() <= kMaxReasonBytes;
  return value.is_primitive();
}

json::object PlainMembers(const json::value* value) {
  json::object kept;
  if (value == nullptr || !value->is_object()) return kept;
  for (const auto& [key, member] : value->get_object()) {
    if (kept.size() == kMaxUpdateMembers) break;
    if (key.size() <= kMaxKeyBytes && IsPlain(member)) kept.emplace(key, member);
  }
  return kept;
}

// A version's meta, if it is what a manifest may have and small.
json::object MetaIn(const json::object& version) {
  json::object kept;
  const json::value* meta = version.if_contains("meta");
  if (meta == nullptr || !meta->is_object()) return kept;
  size_t bytes = 0;
  for (const auto& [key, member] : meta->get_object()) {
    if (!member.is_string()) continue;
    bytes += key.size() + member.get_string().size();
    if (bytes > kMaxMetaBytes) return {};
    kept.emplace(key, member);
  }
  return kept;
}

json::array VersionsIn(const json::object& object) {
  constexpr std::array<std::string_view, 5> kMembers = {"version", "patch_bytes", "changed",
                                                        "elements", "created_at"};
  json::array kept;
  const json::value* versions = object.if_contains("versions");
  if (versions == nullptr || !versions->is_array()) return kept;
  for (const json::value& entry : versions->get_array()) {
    const json::object* facts = entry.if_object();
    if (facts == nullptr) continue;
    if (kept.size() == kMaxVersions) break;
    json::object one;
    for (std::string_view key : kMembers) {
      const json::value* member = facts->if_contains(key);
      if (member != nullptr && IsPlain(*member)) one.emplace(key, *member);
    }
    one.emplace("meta", MetaIn(*facts));
    kept.push_back(std::move(one));
  }
  return kept;
}

IslandReport Read(const json::value& value, const JsonFields& fields) {
  const json::object& object = value.get_object();
  IslandReport report;
  report.run = fields.Text("run");
  board::CheckRunName(report.run);
  report.ready = Truth(object, fields, "ready");
  report.phase = fields.Text("state");
  if (std::ranges::find(kPhases, report.phase) == kPhases.end()) {
    fields.Refuse("state", "not a state of a sidecar");
  }
  const std::string gate = fields.OptionalText("gate");
  report.gate_closed = gate == "closing" || gate == "committing";
  report.served = VersionIn(fields, "applied");
  if (report.ready && report.served == kNoVersion) fields.Refuse("applied", "ready without one");
  report.target = VersionIn(fields, "target");
  if (report.target == report.served) report.target = kNoVersion;
  ReadBoard(fields, &report);
  report.in_flight = OptionalCount(fields, "in_flight");
  report.waiting = OptionalCount(fields, "waiting");
  report.reason = Shortened(fields.OptionalText("reason"));
  report.last_update = PlainMembers(object.if_contains("last_update"));
  report.versions = VersionsIn(object);
  return report;
}

}  // namespace

IslandReport ReadReportOf(const json::value& server_info) {
  try {
    return Read(server_info, JsonFields(server_info, "info"));
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalid, error.what());
  }
}

IslandReport ReadReport(std::string_view server_info) {
  if (server_info.size() > kMaxReportBytes) {
    Throw(ErrorCode::kInvalid, "info: {} bytes, at most {}", server_info.size(), kMaxReportBytes);
  }
  json::value value;
  try {
    value = board::ParseJson(server_info);
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalid, error.Annotated("info").what());
  }
  return ReadReportOf(value);
}

}  // namespace isthmus::gateway
