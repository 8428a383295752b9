// simulate: a fleet on a fake clock, with patches and with full checkpoints side by side.
#include <fmt/format.h>

#include <ctime>
#include <functional>
#include <utility>

#include "isthmus/base/clock.h"
#include "isthmus/base/file.h"
#include "isthmus/cli/command.h"
#include "isthmus/sim/simulation.h"
#include "isthmus/sim/tally_json.h"

namespace isthmus::cli {
namespace {

using sim::LagHistogram;
using sim::Spent;
using sim::Tally;

constexpr std::string_view kBoth = "both";
constexpr std::string_view kPatches = "patches";
constexpr std::string_view kFull = "full";

struct SimulateOptions {
  std::string path;
  std::optional<double> hours;
  std::optional<uint64_t> seed;
  std::string publish = std::string(kBoth);
};

struct Outcome {
  std::string name;  // of the column
  std::string key;   // in JSON
  Tally tally;
  double seconds = 0;      // that it took
  double cpu_seconds = 0;  // … of this program, on one core
};

sim::Scenario ReadScenarioFile(const SimulateOptions& options) {
  if (File::OpenRead(options.path).Size() > sim::kMaxScenarioBytes) {
    Throw(ErrorCode::kInvalid, "read scenario {}: larger than the {} bytes that are allowed",
          options.path, sim::kMaxScenarioBytes);
  }
  const std::string text = ReadFile(options.path, sim::kMaxScenarioBytes);
  try {
    return sim::ReadScenario(text, options.hours);
  } catch (const Error& error) {
    throw error.Annotated("read scenario " + options.path);
  }
}

Outcome Simulate(sim::Scenario scenario, bool full) {
  scenario.full_checkpoints = full;
  const MonotonicTime start = MonotonicNow();
  const std::clock_t cpu_start = std::clock();
  sim::Simulation simulation(scenario);
  Outcome outcome = {full ? "full checkpoints" : "patches", full ? "full_checkpoints" : "patches",
                     simulation.Run()};
  outcome.seconds = SecondsSince(start);
  outcome.cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  return outcome;
}

double EventsPerSecond(const Outcome& outcome) {
  return static_cast<double>(outcome.tally.events) / std::max(outcome.cpu_seconds, 1e-6);
}

using Cell = std::function<std::string(const Tally&)>;

void AddRow(Table* table, std::string label, const std::vector<Outcome>& outcomes,
            const Cell& cell) {
  std::vector<std::string> row = {std::move(label)};
  for (const Outcome& outcome : outcomes) row.push_back(cell(outcome.tally));
  table->Add(std::move(row));
}

std::string Hourly(double count, const Tally& tally) {
  const double hours = sim::ToSeconds(tally.simulated) / 3'600;
  return FormatCount(static_cast<uint64_t>(hours == 0 ? 0 : count / hours));
}

std::string Percent(double part, double whole) {
  return fmt::format("{:.2f} %", whole == 0 ? 0 : 100 * part / whole);
}

void AddRates(Table* table, const std::vector<Outcome>& outcomes) {
  AddRow(table, "rollouts an hour", outcomes,
         [](const Tally& t) { return Hourly(static_cast<double>(t.rollouts), t); });
  AddRow(table, "tokens an hour", outcomes, [](const Tally& t) { return Hourly(t.tokens, t); });
  AddRow(table, "  of what the engines could make", outcomes,
         [](const Tally& t) { return Percent(t.tokens, t.token_capacity); });
  AddRow(table, "versions published", outcomes,
         [](const Tally& t) { return FormatCount(t.versions); });
  AddRow(table, "switches", outcomes, [](const Tally& t) { return FormatCount(t.switches); });
  AddRow(table, "trainer waited", outcomes,
         [](const Tally& t) { return Percent(t.train_wait_s, sim::ToSeconds(t.simulated)); });
}

void AddTimes(Table* table, const std::vector<Outcome>& outcomes) {
  constexpr std::pair<Spent, const char*> kLabels[] = {{Spent::kBusy, "islands busy"},
                                                       {Spent::kIdle, "  idle"},
                                                       {Spent::kDrain, "  draining for a switch"},
                                                       {Spent::kPause, "  paused for a switch"},
                                                       {Spent::kDown, "  down"}};
  for (const auto& [kind, label] : kLabels) {
    AddRow(table, label, outcomes, [kind = kind](const Tally& t) {
      const double all = sim::ToSeconds(t.simulated) * static_cast<double>(t.islands);
      return Percent(sim::ToSeconds(t.spent()[static_cast<size_t>(kind)]), all);
    });
  }
}

void AddLags(Table* table, const std::vector<Outcome>& outcomes) {
  const std::pair<const char*, LagHistogram Tally::*> lags[] = {
      {"lag at admission", &Tally::lag_start},
      {"lag at the end", &Tally::lag_end},
      {"age of a rollout", &Tally::age}};
  for (const auto& [label, lag] : lags) {
    AddRow(table, fmt::format("{}: mean, p50, p99", label), outcomes, [lag = lag](const Tally& t) {
      const LagHistogram& all = t.*lag;
      return fmt::format("{:.2f}, {}, {}", all.mean(), all.quantile(0.5), all.quantile(0.99));
    });
  }
}

void AddRequests(Table* table, const std::vector<Outcome>& outcomes) {
  const std::pair<const char*, uint64_t Tally::*> counts[] = {
      {"requests served", &Tally::served},
      {"  tried at another island", &Tally::retried},
      {"  aborted by switches", &Tally::aborted},
      {"  lost with their island", &Tally::lost},
      {"  refused", &Tally::refused},
      {"  failed", &Tally::failed},
      {"rollouts too old", &Tally::stale_rollouts},
      {"islands killed", &Tally::kills}};
  for (const auto& [label, count] : counts) {
    AddRow(table, label, outcomes,
           [count = count](const Tally& t) { return FormatCount(t.*count); });
  }
}

void AddBytes(Table* table, const std::vector<Outcome>& outcomes) {
  AddRow(table, "published", outcomes,
         [](const Tally& t) { return FormatBytes(static_cast<uint64_t>(t.published_bytes)); });
  for (size_t r = 0; r < outcomes.front().tally.regions.size(); ++r) {
    const std::string name = OneLine(outcomes.front().tally.regions[r].name);
    AddRow(table, "over the link to " + name, outcomes, [r](const Tally& t) {
      return FormatBytes(static_cast<uint64_t>(t.regions[r].link_bytes));
    });
  }
}

// The shares of the lags at admission, those of 8 and more together.
void PrintHistogram(const std::vector<Outcome>& outcomes) {
  constexpr uint64_t kShown = 8;
  std::vector<std::string> header = {"versions behind at admission"};
  for (const Outcome& outcome : outcomes) header.push_back(outcome.name);
  Table table(std::move(header));
  for (uint64_t lag = 0; lag <= kShown; ++lag) {
    AddRow(&table, fmt::format("{}{}", lag, lag == kShown ? " and more" : ""), outcomes,
           [lag](const Tally& t) {
             uint64_t count = t.lag_start.of(lag);
             if (lag == kShown) {
               count = t.lag_start.count();
               for (uint64_t less = 0; less < kShown; ++less) count -= t.lag_start.of(less);
             }
             return Percent(static_cast<double>(count), static_cast<double>(t.lag_start.count()));
           });
  }
  table.Print();
}

void PrintOutcomes(const sim::Scenario& scenario, const std::vector<Outcome>& outcomes) {
  if (!scenario.comment.empty()) fmt::print("{}\n\n", OneLine(scenario.comment));
  std::vector<std::string> header = {
      fmt::format("{} islands, {:g} h", FormatCount(scenario.islands()), scenario.hours)};
  for (const Outcome& outcome : outcomes) header.push_back(outcome.name);
  Table table(std::move(header));
  AddRates(&table, outcomes);
  AddTimes(&table, outcomes);
  AddLags(&table, outcomes);
  AddRequests(&table, outcomes);
  AddBytes(&table, outcomes);
  table.Print();
  fmt::print("\n");
  PrintHistogram(outcomes);
  fmt::print("\n");
  for (const Outcome& outcome : outcomes) {
    fmt::print("{}: {} events in {} of processor time, {} a second\n", outcome.name,
               FormatCount(outcome.tally.events), FormatSeconds(outcome.cpu_seconds),
               FormatCount(static_cast<uint64_t>(EventsPerSecond(outcome))));
  }
}

void RunSimulate(const SimulateOptions& options, Context& context) {
  sim::Scenario scenario = ReadScenarioFile(options);
  if (options.seed) scenario.seed = *options.seed;
  std::vector<Outcome> outcomes;
  if (options.publish != kFull) outcomes.push_back(Simulate(scenario, false));
  if (options.publish != kPatches) outcomes.push_back(Simulate(scenario, true));
  if (!context.json) return PrintOutcomes(scenario, outcomes);
  json::object all = {{"comment", scenario.comment}, {"seed", scenario.seed}};
  for (const Outcome& outcome : outcomes) {
    json::object object = ToJson(outcome.tally);
    object["seconds"] = outcome.seconds;
    object["cpu_seconds"] = outcome.cpu_seconds;
    object["events_per_second"] = EventsPerSecond(outcome);
    all[outcome.key] = std::move(object);
  }
  PrintJson(all);
}

}  // namespace

void AddSimulate(CLI::App& app, Context& context) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command =
      app.add_subcommand("simulate", "Simulate a fleet: staleness, utilisation, bytes, lost time");
  command->footer("Example: isthmus simulate examples/simulate/small.json");
  command->add_option("SCENARIO", options->path, "JSON file (docs/simulate.md)")->required();
  command->add_option("--hours", options->hours, "Simulate so many in place of the scenario's");
  command->add_option("--seed", options->seed, "Draw other random numbers than the scenario's")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--publish", options->publish,
                   "What versions are published as: patches, full checkpoints, or both in turn")
      ->check(CLI::IsMember(std::vector<std::string>{"both", "patches", "full"}))
      ->capture_default_str();
  command->callback([options, &context] { RunSimulate(*options, context); });
}

}  // namespace isthmus::cli
