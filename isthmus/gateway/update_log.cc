#include "isthmus/gateway/update_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

namespace isthmus::gateway {
namespace {

namespace json = boost::json;

constexpr size_t kKindBytes = 16;
constexpr size_t kErrorBytes = 300;
constexpr double kLongestMs = 1e9;

std::string Quoted(std::string_view text) { return json::serialize(json::string(text)); }

std::string_view TextOf(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string())
                                                : std::string_view();
}

// The longest beginning of at most so many bytes that ends between characters of UTF-8.
std::string Beginning(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return std::string(text.substr(0, bytes));
}

uint64_t CountOf(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return 0;
  if (value->is_uint64()) return value->get_uint64();
  return value->is_int64() && value->get_int64() > 0 ? static_cast<uint64_t>(value->get_int64())
                                                     : 0;
}

float MillisecondsOf(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_number()) return 0;
  return static_cast<float>(std::clamp(value->to_number<double>(), 0.0, kLongestMs));
}

VersionNumber VersionOf(const json::object& object, std::string_view key) {
  const uint64_t number = CountOf(object, key);
  return number <= 9'999'999'999 ? number : kNoVersion;
}

// What tells one update of an island from its last.
uint64_t DigestOf(const json::object& update) {
  return std::hash<std::string>{}(fmt::format("{} {} {}", TextOf(update, "ended_at"),
                                              CountOf(update, "to"), TextOf(update, "kind")));
}

void AppendMilliseconds(std::string* text, const std::array<float, kPhases.size()>& milliseconds) {
  *text += R"("ms":[)";
  for (size_t i = 0; i < milliseconds.size(); ++i) {
    fmt::format_to(std::back_inserter(*text), "{}{:.6g}", i == 0 ? "" : ",",
                   std::round(milliseconds[i] * 10) / 10);
  }
  *text += ']';
}

}  // namespace

// The updates of a run to one version.
struct UpdateLog::Summary {
  std::vector<const Update*> updates;
  Mark newest;
};

void UpdateLog::Record(const std::vector<IslandFacts>& facts, Mark now) {
  for (const IslandFacts& island : facts) {
    Told& told = told_[island.id];
    told.seen = now.sequence;
    if (island.report->last_update.empty()) continue;
    const uint64_t digest = DigestOf(island.report->last_update);
    if (told.update == digest) continue;
    told.update = digest;
    updates_.push_back(ReadUpdate(island, now));
    if (updates_.size() > limits_.updates) updates_.pop_front();
  }
  std::erase_if(told_, [&](const auto& entry) { return entry.second.seen != now.sequence; });
}

UpdateLog::Update UpdateLog::ReadUpdate(const IslandFacts& island, Mark now) {
  const json::object& told = island.report->last_update;
  Update update;
  update.seen = now;
  update.id = island.id;
  update.run = island.report->run;
  update.kind = Beginning(TextOf(told, "kind"), kKindBytes);
  update.error = Beginning(TextOf(told, "error"), kErrorBytes);
  update.from = VersionOf(told, "from");
  update.to = VersionOf(told, "to");
  const json::value* ok = told.if_contains("ok");
  update.ok = ok != nullptr && ok->is_bool() && ok->get_bool();
  update.fetched_bytes = CountOf(told, "fetched_bytes");
  for (size_t i = 0; i < kPhases.size(); ++i) {
    update.milliseconds[i] = MillisecondsOf(told, fmt::format("{}_ms", kPhases[i]));
  }
  return update;
}

std::string UpdateLog::ToJson(uint64_t sequence, int64_t from_ms) const {
  const auto old = [&](const Update& update) {
    return update.seen.sequence <= sequence || update.seen.time_ms < from_ms;
  };
  auto first = std::partition_point(updates_.begin(), updates_.end(), old);
  if (static_cast<size_t>(updates_.end() - first) > limits_.listed) {
    first = updates_.end() - static_cast<std::ptrdiff_t>(limits_.listed);
  }
  std::string text = "[";
  for (; first != updates_.end(); ++first) {
    fmt::format_to(
        std::back_inserter(text),
        R"({}{{"seen":{},"id":{},"run":{},"kind":{},"from":{},"to":{},"ok":{},"error":{},"fetched_bytes":{},)",
        text.size() == 1 ? "" : ",", first->seen.time_ms, Quoted(first->id), Quoted(first->run),
        Quoted(first->kind), first->from, first->to, first->ok, Quoted(first->error),
        first->fetched_bytes);
    AppendMilliseconds(&text, first->milliseconds);
    text += '}';
  }
  return text + "]";
}

std::string UpdateLog::SummariesJson(uint64_t sequence, int64_t from_ms) const {
  if (updates_.empty() || updates_.back().seen.sequence <= sequence) return "[]";
  std::map<std::pair<std::string_view, VersionNumber>, Summary> by_target;
  for (auto update = updates_.rbegin(); update != updates_.rend(); ++update) {
    if (update->seen.time_ms < from_ms) break;
    Summary& summary = by_target[{update->run, update->to}];
    if (summary.updates.empty()) summary.newest = update->seen;
    summary.updates.push_back(&*update);
  }
  std::vector<const Summary*> newest;
  newest.reserve(by_target.size());
  for (const auto& [target, summary] : by_target) newest.push_back(&summary);
  std::stable_sort(newest.begin(), newest.end(), [](const Summary* one, const Summary* other) {
    return one->newest.sequence > other->newest.sequence;
  });
  newest.resize(std::min(newest.size(), limits_.summaries));
  std::string text = "[";
  for (const Summary* summary : newest) {
    if (summary->newest.sequence <= sequence) break;
    if (text.size() > 1) text += ',';
    text += SummaryJson(*summary);
  }
  return text + "]";
}

std::string UpdateLog::SummaryJson(const Summary& summary) {
  const Update& newest = *summary.updates.front();
  size_t failed = 0;
  std::vector<uint64_t> bytes;
  bytes.reserve(summary.updates.size());
  for (const Update* update : summary.updates) {
    failed += update->ok ? 0 : 1;
    bytes.push_back(update->fetched_bytes);
  }
  const auto middle = static_cast<std::ptrdiff_t>((bytes.size() - 1) / 2);
  std::nth_element(bytes.begin(), bytes.begin() + middle, bytes.end());
  std::array<float, kPhases.size()> medians{};
  std::vector<float> values(summary.updates.size());
  for (size_t phase = 0; phase < kPhases.size(); ++phase) {
    std::transform(summary.updates.begin(), summary.updates.end(), values.begin(),
                   [&](const Update* update) { return update->milliseconds[phase]; });
    std::nth_element(values.begin(), values.begin() + middle, values.end());
    medians[phase] = values[static_cast<size_t>(middle)];
  }
  std::string text =
      fmt::format(R"({{"run":{},"to":{},"seen":{},"updates":{},"failed":{},"fetched_bytes":{},)",
                  Quoted(newest.run), newest.to, newest.seen.time_ms, summary.updates.size(),
                  failed, bytes[static_cast<size_t>(middle)]);
  AppendMilliseconds(&text, medians);
  return text + "}";
}

}  // namespace isthmus::gateway
