#include "isthmus/gateway/fleet_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <map>
#include <string_view>
#include <unordered_map>

namespace isthmus::gateway {
namespace {

// One run while its islands are gone through.
struct Tally {
  RunSample sample;
  uint32_t islands = 0;
  std::unordered_map<VersionNumber, uint32_t> served;
  std::vector<uint64_t> lags;

  void Add(const IslandFacts& island);
  void Finish();

 private:
  void FinishVersions();
  void FinishLag();
};

void Tally::Add(const IslandFacts& island) {
  ++islands;
  ++sample.states.at(static_cast<size_t>(island.state));
  const VersionNumber version = ServedNow(island);
  if (version == kNoVersion) return;
  ++sample.serving;
  ++served[version];
  lags.push_back(sample.newest > version ? sample.newest - version : 0);
}

void Tally::Finish() {
  FinishVersions();
  FinishLag();
}

void Tally::FinishVersions() {
  auto& versions = sample.versions;
  versions.assign(served.begin(), served.end());
  std::sort(versions.begin(), versions.end(), [](const auto& one, const auto& other) {
    return std::pair(one.second, one.first) > std::pair(other.second, other.first);
  });
  for (size_t i = kSampledVersions; i < versions.size(); ++i) sample.others += versions[i].second;
  versions.resize(std::min(versions.size(), kSampledVersions));
  std::sort(versions.rbegin(), versions.rend());
}

void Tally::FinishLag() {
  if (lags.empty()) return;
  std::sort(lags.begin(), lags.end());
  const auto rank = [&](size_t percent) { return lags[(lags.size() * percent + 99) / 100 - 1]; };
  sample.lag = LagSample{rank(50), rank(95), lags.back()};
}

}  // namespace

VersionNumber ServedNow(const IslandFacts& island) {
  switch (island.state) {
    case IslandState::kReady:
    case IslandState::kStaging:
    case IslandState::kCommitting:
      return island.report->served;
    default:
      return kNoVersion;
  }
}

std::vector<RunSample> SampleRuns(const std::vector<IslandFacts>& facts,
                                  const std::vector<RunView>& runs) {
  std::map<std::string_view, Tally> tallies;
  for (const RunView& run : runs) {
    RunSample& sample = tallies[run.name].sample;
    sample.run = run.name;
    sample.newest = run.newest;
  }
  for (const IslandFacts& island : facts) {
    const auto tally = tallies.find(island.report->run);
    if (tally != tallies.end()) tally->second.Add(island);
  }
  std::vector<Tally*> largest;
  largest.reserve(tallies.size());
  for (auto& [name, tally] : tallies) largest.push_back(&tally);
  std::stable_sort(largest.begin(), largest.end(), [](const Tally* one, const Tally* other) {
    return one->islands > other->islands;
  });
  largest.resize(std::min(largest.size(), kSampledRuns));
  std::vector<RunSample> samples;
  samples.reserve(largest.size());
  for (Tally* tally : largest) {
    tally->Finish();
    samples.push_back(std::move(tally->sample));
  }
  return samples;
}

void KeepHighestLag(const std::vector<RunSample>& earlier, std::vector<RunSample>* later) {
  for (RunSample& sample : *later) {
    const auto before = std::find_if(earlier.begin(), earlier.end(), [&](const RunSample& other) {
      return other.run == sample.run;
    });
    if (before == earlier.end() || !before->lag) continue;
    if (!sample.lag) {
      sample.lag = before->lag;
      continue;
    }
    sample.lag->p95 = std::max(sample.lag->p95, before->lag->p95);
    sample.lag->max = std::max(sample.lag->max, before->lag->max);
  }
}

std::string ToJson(const RunSample& sample) {
  std::string json = fmt::format(R"({{"run":{},"newest":{},"serving":{},"versions":[)",
                                 boost::json::serialize(boost::json::string(sample.run)),
                                 sample.newest, sample.serving);
  auto out = std::back_inserter(json);
  for (const auto& [version, islands] : sample.versions) {
    fmt::format_to(out, "{}[{},{}]", json.back() == '[' ? "" : ",", version, islands);
  }
  fmt::format_to(out, R"(],"others":{},"states":{{)", sample.others);
  for (size_t i = 0; i < kIslandStates; ++i) {
    fmt::format_to(out, R"({}"{}":{})", i == 0 ? "" : ",",
                   IslandStateName(static_cast<IslandState>(i)), sample.states[i]);
  }
  json += R"(},"lag":)";
  if (sample.lag) {
    fmt::format_to(out, "[{},{},{}]}}", sample.lag->p50, sample.lag->p95, sample.lag->max);
  } else {
    json += "null}";
  }
  return json;
}

}  // namespace isthmus::gateway
