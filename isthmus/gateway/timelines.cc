#include "isthmus/gateway/timelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <iterator>

#include "isthmus/gateway/fleet_sample.h"

namespace isthmus::gateway {

void Timelines::Record(const std::vector<IslandFacts>& facts, Mark now) {
  for (const IslandFacts& facts_of_one : facts) {
    Island& island = islands_[facts_of_one.id];
    island.seen = now.sequence;
    if (!facts_of_one.report->run.empty() && island.run != facts_of_one.report->run) {
      island.run = facts_of_one.report->run;  // another lineage: its numbers say something else
      island.changes.clear();
    }
    Add(&island, ServedNow(facts_of_one), now);
  }
  EndUnlisted(now);
  Forget(now);
}

void Timelines::Add(Island* island, VersionNumber version, Mark now) const {
  auto& changes = island->changes;
  if (!changes.empty() && changes.back().version == version) return;
  changes.push_back({now, version});
  const size_t limit = ChangeLimit();
  if (changes.size() > limit) {
    changes.erase(changes.begin(), changes.end() - static_cast<std::ptrdiff_t>(limit));
  }
}

size_t Timelines::ChangeLimit() const {
  const size_t fair = limits_.changes / std::max<size_t>(1, islands_.size());
  return std::clamp<size_t>(fair, 1, limits_.island_changes);
}

void Timelines::EndUnlisted(Mark now) {
  for (auto& [id, island] : islands_) {
    if (island.seen != now.sequence) Add(&island, kNoVersion, now);
  }
}

void Timelines::Forget(Mark now) {
  std::erase_if(islands_, [&](const auto& entry) {
    const Island& island = entry.second;
    return island.seen != now.sequence &&
           island.changes.back().mark.time_ms < now.time_ms - limits_.remembered_ms;
  });
  if (islands_.size() <= limits_.islands) return;
  // Those that are not listed go first, the longest gone of them before the others.
  std::vector<std::pair<uint64_t, std::string>> order;
  order.reserve(islands_.size());
  for (const auto& [id, island] : islands_) order.emplace_back(island.seen, id);
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(islands_.size() - limits_.islands);
  std::nth_element(order.begin(), end, order.end());
  for (auto entry = order.begin(); entry != end; ++entry) islands_.erase(entry->second);
}

std::string Timelines::ToJson(uint64_t sequence, int64_t from_ms) const {
  std::string json = "[";
  auto out = std::back_inserter(json);
  for (const auto& [id, island] : islands_) {
    const auto& changes = island.changes;
    auto change = std::find_if(changes.begin(), changes.end(),
                               [&](const Change& each) { return each.mark.time_ms > from_ms; });
    if (change != changes.begin()) --change;
    change = std::find_if(change, changes.end(),
                          [&](const Change& each) { return each.mark.sequence > sequence; });
    if (change == changes.end()) continue;
    // An island that has served nothing in all the time is no line to draw.
    if (std::next(change) == changes.end() && change->version == kNoVersion && sequence == 0 &&
        change->mark.time_ms <= from_ms) {
      continue;
    }
    fmt::format_to(out, R"({}{{"id":{},"run":{},"changes":[)", json.size() == 1 ? "" : ",",
                   boost::json::serialize(boost::json::string(id)),
                   boost::json::serialize(boost::json::string(island.run)));
    for (bool first = true; change != changes.end(); ++change, first = false) {
      fmt::format_to(out, "{}[{},{}]", first ? "" : ",", change->mark.time_ms, change->version);
    }
    json += "]}";
  }
  json += ']';
  return json;
}

}  // namespace isthmus::gateway
