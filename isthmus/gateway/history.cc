#include "isthmus/gateway/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <charconv>
#include <deque>
#include <iterator>
#include <utility>

#include "isthmus/gateway/fleet_sample.h"
#include "isthmus/gateway/timelines.h"
#include "isthmus/gateway/update_log.h"
#include "isthmus/gateway/version_facts.h"

namespace isthmus::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kFineSamples = 900;      // 30 minutes
constexpr int kFineInCoarse = 15;         // one of 30 s
constexpr size_t kCoarseSamples = 2'880;  // 24 hours
constexpr seconds kFineWindow{1'800};
constexpr seconds kLongestWindow{86'400};
constexpr size_t kMaxCursorBytes = 200;

uint64_t ReadCount(std::string_view name, std::string_view text, uint64_t min, uint64_t max) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < min || number > max) {
    Throw(ErrorCode::kInvalid,
          "reading {} of the query: found '{}', allowed is a number from {} to {}", name,
          text.substr(0, 40), min, max);
  }
  return number;
}

std::optional<Quantiles> Highest(const std::optional<Quantiles>& earlier,
                                 const std::optional<Quantiles>& later) {
  if (!earlier || !later) return later ? later : earlier;
  return Quantiles{later->p50, std::max(earlier->p99, later->p99)};
}

std::string QuantilesJson(const std::optional<Quantiles>& quantiles) {
  return quantiles ? fmt::format("[{:.6g},{:.6g}]", quantiles->p50, quantiles->p99) : "null";
}

// The names in answers, and where the totals are.
constexpr std::array<std::pair<std::string_view, uint64_t RequestTotals::*>, 8> kTotals = {{
    {"received", &RequestTotals::received},
    {"served", &RequestTotals::served},
    {"refused", &RequestTotals::refused},
    {"shed", &RequestTotals::shed},
    {"failed", &RequestTotals::failed},
    {"abandoned", &RequestTotals::abandoned},
    {"retried", &RequestTotals::retried},
    {"tokens", &RequestTotals::tokens},
}};

// What one sample says, before it is text.
struct Measured {
  int64_t time_ms = 0;
  MonotonicTime instant;
  GatewayLoad load;
  std::vector<RunSample> runs;
};

std::string RatesJson(const RequestTotals& before, const RequestTotals& now, double elapsed) {
  std::string json;
  for (const auto& [name, total] : kTotals) {
    const double rate = elapsed > 0 ? static_cast<double>(now.*total - before.*total) / elapsed : 0;
    fmt::format_to(std::back_inserter(json), R"({}"{}":{:.6g})", json.empty() ? "" : ",", name,
                   rate);
  }
  return json;
}

std::string SampleJson(const Measured& sample, const RequestTotals& before, MonotonicTime since) {
  const double elapsed = std::chrono::duration<double>(sample.instant - since).count();
  std::string json = fmt::format(
      R"({{"t":{},"requests":{{{}}},"in_flight":{},"queued":{},"first_byte_ms":{},"added_ms":{},"runs":[)",
      sample.time_ms, RatesJson(before, sample.load.totals, elapsed), sample.load.in_flight,
      sample.load.queued, QuantilesJson(sample.load.first_byte), QuantilesJson(sample.load.added));
  for (size_t i = 0; i < sample.runs.size(); ++i) {
    if (i > 0) json += ',';
    json += ToJson(sample.runs[i]);
  }
  return json + "]}";
}

// The later one, with what the rules for samples of 30 s take from the earlier.
Measured Joined(const Measured& earlier, Measured later) {
  later.load.in_flight = std::max(earlier.load.in_flight, later.load.in_flight);
  later.load.queued = std::max(earlier.load.queued, later.load.queued);
  later.load.first_byte = Highest(earlier.load.first_byte, later.load.first_byte);
  later.load.added = Highest(earlier.load.added, later.load.added);
  KeepHighestLag(earlier.runs, &later.runs);
  return later;
}

// Samples as text, the oldest dropped.
class Samples {
 public:
  explicit Samples(size_t limit) : limit_(limit) {}

  void Add(Mark mark, std::string json) {
    samples_.push_back({mark, std::move(json)});
    if (samples_.size() <= limit_) return;
    dropped_ = samples_.front().mark.sequence;
    samples_.pop_front();
  }

  // Whether all after `sequence` are still here.
  bool HasAllAfter(uint64_t sequence) const { return sequence >= dropped_; }

  void AppendAfter(uint64_t sequence, int64_t from_ms, std::string* json) const {
    bool first = true;
    for (const Sample& sample : samples_) {
      if (sample.mark.sequence <= sequence || sample.mark.time_ms < from_ms) continue;
      if (!std::exchange(first, false)) *json += ',';
      *json += sample.json;
    }
  }

 private:
  struct Sample {
    Mark mark;
    std::string json;
  };

  size_t limit_;
  uint64_t dropped_ = 0;  // the sequence of the last one that is not here any more
  std::deque<Sample> samples_;
};

}  // namespace

HistoryQuery ReadHistoryQuery(std::string_view query) {
  HistoryQuery read;
  std::vector<std::string_view> names;
  while (!query.empty()) {
    const std::string_view member = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), member.size() + 1));
    const size_t equals = std::min(member.find('='), member.size());
    const std::string_view name = member.substr(0, equals);
    const std::string_view value = member.substr(std::min(member.size(), equals + 1));
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      Throw(ErrorCode::kInvalid, "reading the query: '{}' is given twice", name.substr(0, 40));
    }
    names.push_back(name);
    if (name == "since_s") {
      read.since =
          seconds(ReadCount(name, value, 1, static_cast<uint64_t>(kLongestWindow.count())));
    } else if (name == "after" && value.size() <= kMaxCursorBytes) {
      read.after = value;
    } else {
      Throw(ErrorCode::kInvalid, "reading the query: '{}' is not allowed, but since_s and after",
            member.substr(0, 40));
    }
  }
  return read;
}

struct History::State {
  State(std::string name, WallTime wall, MonotonicTime now)
      : instance(std::move(name)), wall_begin(wall), begin(now), last_time(now), coarse_time(now) {}

  int64_t TimeMs(MonotonicTime now) const;
  std::optional<uint64_t> ReadCursor(std::string_view cursor) const;
  void AddSamples(Measured sample, Mark mark);

  std::string instance;
  WallTime wall_begin;
  MonotonicTime begin;
  uint64_t sequence = 0;  // of the last sample

  RequestTotals last_totals;
  MonotonicTime last_time;
  Samples fine{kFineSamples};

  std::optional<Measured> joined;  // of the samples since the last coarse one
  RequestTotals coarse_totals;
  MonotonicTime coarse_time;
  Samples coarse{kCoarseSamples};

  Timelines timelines{TimelineLimits{}};
  UpdateLog updates{UpdateLimits{}};
  VersionFacts versions{VersionFactsLimits{}};
};

int64_t History::State::TimeMs(MonotonicTime now) const {
  const auto wall = std::chrono::time_point_cast<milliseconds>(wall_begin);
  return wall.time_since_epoch().count() +
         std::chrono::duration_cast<milliseconds>(now - begin).count();
}

// The sequence that it names; nullopt if it is none of this history's.
std::optional<uint64_t> History::State::ReadCursor(std::string_view cursor) const {
  if (!cursor.starts_with(instance + ".")) return std::nullopt;
  cursor.remove_prefix(instance.size() + 1);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), number);
  if (error != std::errc() || end != cursor.data() + cursor.size() || number > sequence) {
    return std::nullopt;
  }
  return number;
}

void History::State::AddSamples(Measured sample, Mark mark) {
  fine.Add(mark, SampleJson(sample, last_totals, last_time));
  last_totals = sample.load.totals;
  last_time = sample.instant;
  joined = joined ? Joined(*joined, std::move(sample)) : std::move(sample);
  if (mark.sequence % kFineInCoarse != 0) return;
  coarse.Add(mark, SampleJson(*joined, coarse_totals, coarse_time));
  coarse_totals = last_totals;
  coarse_time = last_time;
  joined.reset();
}

History::History(std::string instance, WallTime wall, MonotonicTime now)
    : state_(std::make_unique<State>(std::move(instance), wall, now)) {}

History::~History() = default;

void History::Record(const std::vector<IslandFacts>& facts, const std::vector<RunView>& runs,
                     const GatewayLoad& load, MonotonicTime now) {
  State& state = *state_;
  const Mark mark{++state.sequence, state.TimeMs(now)};
  state.AddSamples({mark.time_ms, now, load, SampleRuns(facts, runs)}, mark);
  state.timelines.Record(facts, mark);
  state.updates.Record(facts, mark);
  state.versions.Record(facts, mark);
}

std::string History::Answer(const HistoryQuery& query, MonotonicTime now) const {
  const State& state = *state_;
  const bool is_fine = query.since <= kFineWindow;
  const Samples& samples = is_fine ? state.fine : state.coarse;
  const milliseconds interval = kInterval * (is_fine ? 1 : kFineInCoarse);
  std::optional<uint64_t> known = state.ReadCursor(query.after);
  if (known && !samples.HasAllAfter(*known)) known.reset();
  const uint64_t after = known.value_or(0);
  const int64_t now_ms = state.TimeMs(now);
  const int64_t from_ms = now_ms - milliseconds(query.since).count();

  std::string json =
      fmt::format(R"({{"gateway":{},"now":{},"cursor":{},"reset":{},"interval_ms":{},"samples":[)",
                  boost::json::serialize(boost::json::string(state.instance)), now_ms,
                  boost::json::serialize(
                      boost::json::string(fmt::format("{}.{}", state.instance, state.sequence))),
                  !known, interval.count());
  samples.AppendAfter(after, from_ms, &json);
  json += R"(],"timelines":)" + state.timelines.ToJson(after, from_ms);
  json += R"(,"updates":)" + state.updates.ToJson(after, from_ms);
  json += R"(,"update_summaries":)" + state.updates.SummariesJson(after, from_ms);
  json += R"(,"phases":[)";
  for (const std::string_view phase : kPhases) {
    fmt::format_to(std::back_inserter(json), R"({}"{}")", json.back() == '[' ? "" : ",", phase);
  }
  json += R"(],"versions":)" + state.versions.ToJson(after) + "}";
  return json;
}

}  // namespace isthmus::gateway
