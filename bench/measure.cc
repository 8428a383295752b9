#include "bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace isthmus::bench {
namespace {

double SecondsOf(const Loop& loop) {
  using Clock = std::chrono::steady_clock;
  loop.prepare();
  const Clock::time_point start = Clock::now();
  loop.run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string TargetText(Target target) {
  switch (target.kind) {
    case Target::Kind::kNone:
      return "";
    case Target::Kind::kAtLeast:
      return fmt::format(">= {}", target.bound);
    case Target::Kind::kAtMost:
      return fmt::format("<= {}", target.bound);
  }
  return "";
}

std::string MetText(Target target, double value) {
  switch (target.kind) {
    case Target::Kind::kNone:
      return "";
    case Target::Kind::kAtLeast:
      return value >= target.bound ? "yes" : "no";
    case Target::Kind::kAtMost:
      return value <= target.bound ? "yes" : "no";
  }
  return "";
}

}  // namespace

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<std::vector<double>> TimeInTurn(const std::vector<Loop>& loops, size_t rounds) {
  std::vector<std::vector<double>> seconds(loops.size());
  for (const Loop& loop : loops) SecondsOf(loop);
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < loops.size(); ++i) seconds[i].push_back(SecondsOf(loops[i]));
  }
  return seconds;
}

double SpeedRatio(const std::vector<double>& seconds, const std::vector<double>& reference) {
  std::vector<double> ratios;
  for (size_t i = 0; i < seconds.size(); ++i) ratios.push_back(reference[i] / seconds[i]);
  return Median(std::move(ratios));
}

void Consume(uint64_t result) {
  static std::atomic<uint64_t> kept = 0;
  kept.fetch_add(result, std::memory_order_relaxed);
}

void PrintHeader() { fmt::print("bench,case,metric,value,unit,target,met\n"); }

void PrintRow(std::string_view bench, std::string_view test_case, std::string_view metric,
              double value, std::string_view unit, Target target) {
  fmt::print("{},{},{},{:.4g},{},{},{}\n", bench, test_case, metric, value, unit,
             TargetText(target), MetText(target, value));
}

}  // namespace isthmus::bench
