#include "isthmus/gateway/version_facts.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <set>
#include <string_view>
#include <utility>

namespace isthmus::gateway {
namespace {

namespace json = boost::json;

constexpr std::string_view kMetaPrefix = "isthmus.";
constexpr size_t kMetaMembers = 16;
constexpr size_t kMetaBytes = 64;  // of a key, and of a value
constexpr size_t kTimeBytes = 24;  // "2026-01-31T09:30:00.250Z"

// A whole number that is not negative; null if there is none.
json::value CountOf(const json::object& facts, std::string_view key) {
  const json::value* value = facts.if_contains(key);
  if (value == nullptr) return nullptr;
  if (value->is_uint64()) return *value;
  if (value->is_int64() && value->get_int64() >= 0) return *value;
  return nullptr;
}

json::value TimeOf(const json::object& facts) {
  const json::value* value = facts.if_contains("created_at");
  if (value == nullptr || !value->is_string()) return nullptr;
  return value->get_string().size() <= kTimeBytes ? *value : json::value(nullptr);
}

json::object MetaOf(const json::object& facts) {
  json::object kept;
  const json::value* meta = facts.if_contains("meta");
  if (meta == nullptr || !meta->is_object()) return kept;
  for (const auto& [key, value] : meta->get_object()) {
    if (kept.size() == kMetaMembers) break;
    if (!std::string_view(key).starts_with(kMetaPrefix) || key.size() > kMetaBytes) continue;
    if (!value.is_string() || value.get_string().size() > kMetaBytes) continue;
    kept.emplace(key, value);
  }
  return kept;
}

VersionNumber NumberOf(const json::value& facts) {
  if (!facts.is_object()) return kNoVersion;
  const json::value number = CountOf(facts.get_object(), "version");
  if (number.is_null()) return kNoVersion;
  const auto version = number.to_number<uint64_t>();
  return version <= 9'999'999'999 ? version : kNoVersion;
}

}  // namespace

void VersionFacts::Record(const std::vector<IslandFacts>& facts, Mark now) {
  std::set<std::string_view> listed;
  for (const IslandFacts& island : facts) {
    if (island.report->run.empty()) continue;
    listed.insert(island.report->run);
    auto run = runs_.find(island.report->run);
    if (run == runs_.end()) {
      if (runs_.size() == limits_.runs) continue;
      run = runs_.try_emplace(island.report->run).first;
    }
    if (ToldBefore(island, now)) continue;
    for (const json::value& each : island.report->versions) {
      RecordOne(run->first, each, &run->second, now);
    }
  }
  std::erase_if(told_, [&](const auto& island) { return island.second.seen != now.sequence; });
  std::erase_if(runs_, [&](const auto& run) { return !listed.contains(run.first); });
}

bool VersionFacts::ToldBefore(const IslandFacts& island, Mark now) {
  const json::array& versions = island.report->versions;
  Told telling{now.sequence, island.report->run, versions.size(), kNoVersion, kNoVersion};
  if (!versions.empty()) {
    telling.first = NumberOf(versions.front());
    telling.last = NumberOf(versions.back());
  }
  Told& told = told_[island.id];
  const bool same = told.run == telling.run && told.size == telling.size &&
                    told.first == telling.first && told.last == telling.last;
  told = std::move(telling);
  return same;
}

void VersionFacts::RecordOne(const std::string& run, const json::value& reported,
                             Versions* versions, Mark now) const {
  const VersionNumber version = NumberOf(reported);
  if (version == kNoVersion || versions->contains(version)) return;
  if (versions->size() == limits_.versions) {
    if (version < versions->begin()->first) return;
    versions->erase(versions->begin());
  }
  const json::object& facts = reported.get_object();
  versions->emplace(version, Facts{now.sequence, json::serialize(json::object{
                                                     {"run", run},
                                                     {"version", version},
                                                     {"patch_bytes", CountOf(facts, "patch_bytes")},
                                                     {"changed", CountOf(facts, "changed")},
                                                     {"elements", CountOf(facts, "elements")},
                                                     {"created_at", TimeOf(facts)},
                                                     {"meta", MetaOf(facts)}})});
}

std::string VersionFacts::ToJson(uint64_t sequence) const {
  std::string text = "[";
  for (const auto& [run, versions] : runs_) {
    for (const auto& [version, facts] : versions) {
      if (facts.sequence <= sequence) continue;
      if (text.size() > 1) text += ',';
      text += facts.json;
    }
  }
  return text + "]";
}

}  // namespace isthmus::gateway
