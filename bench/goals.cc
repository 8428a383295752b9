#include "bench/goals.h"

#include <thread>

#include "bench/step_pairs.h"

namespace isthmus::bench {
namespace {

constexpr uint64_t kFewChanges = 1000;

struct SpeedGoal {
  std::string_view pair;  // empty: every pair
  std::string_view loop;
  double avx512;
  double avx2;
};

// Machines without AVX-512 lack what turns bytes into class masks and ranks into places in a few
// instructions.
constexpr SpeedGoal kSpeedGoals[] = {
    {"", kScanLoop, 0.9, 0.85},         {kBf16At1, kApplyLoop, 0.8, 0.5},
    {kBf16At015, kApplyLoop, 1.6, 0.8}, {kFp8At01, kApplyLoop, 0.8, 0.45},
    {kBf16At1, kEncodeLoop, 0.4, 0.28}, {kBf16At015, kEncodeLoop, 0.65, 0.45},
    {kFp8At01, kEncodeLoop, 0.4, 0.27}, {kBf16At1, kVerifiedLoop, 0.5, 0.35},
};

}  // namespace

SizeGoals SizeGoalsOf(std::string_view pair, bool generated, uint64_t changed) {
  if (generated) return {{}, {}, {}, Target::AtMost(1.03)};
  if (changed < kFewChanges) return {};
  if (pair == kRealBf16One) {
    return {Target::AtMost(7.3), Target::AtMost(7.7), Target::AtLeast(3), {}};
  }
  if (pair == kRealBf16Three) return {Target::AtMost(6.6), Target::AtMost(6.8), {}, {}};
  if (pair == kRealFp8One) return {Target::AtMost(10), Target::AtMost(12), {}, {}};
  return {};
}

Target SpeedGoalOf(std::string_view pair, std::string_view loop, std::string_view simd) {
  for (const SpeedGoal& goal : kSpeedGoals) {
    if (goal.loop != loop || (!goal.pair.empty() && goal.pair != pair)) continue;
    if (simd.starts_with("avx512")) return Target::AtLeast(goal.avx512);
    if (simd == "avx2") return Target::AtLeast(goal.avx2);
  }
  return {};
}

Target TwoCoresGoalOf(std::string_view pair) {
  const bool has_goal = pair == kBf16At1 && std::thread::hardware_concurrency() > 1;
  return has_goal ? Target::AtLeast(1.8) : Target{};
}

}  // namespace isthmus::bench
