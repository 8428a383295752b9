#include "isthmus/codec/simd.h"

#include <fmt/format.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cctype>

#include "isthmus/base/error.h"

namespace isthmus::codec {
namespace {

// What the machine has, whatever SelectSimd chose.
int64_t Attainable() {
  static const int64_t targets = hwy::SupportedTargets() & (HWY_TARGETS);
  return targets;
}

std::string NameOf(int64_t target) {
  std::string name = hwy::TargetName(target);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "avx3") return "avx512";
  if (name == "avx3_dl") return "avx512-dl";
  if (name == "avx3_zen4") return "avx512-zen4";
  if (name == "emu128" || name == "scalar") return "scalar";
  return name;
}

// Lower bits are better targets.
std::vector<int64_t> Targets() {
  std::vector<int64_t> targets;
  for (int64_t left = Attainable(); left != 0; left &= left - 1) targets.push_back(left & -left);
  return targets;
}

}  // namespace

std::vector<std::string> SimdTargets() {
  std::vector<std::string> names;
  for (const int64_t target : Targets()) names.push_back(NameOf(target));
  return names;
}

std::string SimdTarget() {
  const int64_t in_use = hwy::SupportedTargets() & Attainable();
  return NameOf(in_use & -in_use);
}

void SelectSimd(std::string_view name) {
  Attainable();        // before anything is restricted
  int64_t chosen = 0;  // 0 restores the normal choice
  for (const int64_t target : Targets()) {
    if (!name.empty() && NameOf(target) == name) chosen = target;
  }
  if (chosen == 0 && !name.empty()) {
    Throw(ErrorCode::kInvalid, "select SIMD target {}: this machine has {}", name,
          fmt::join(SimdTargets(), ", "));
  }
  hwy::SetSupportedTargetsForTest(chosen);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace isthmus::codec
