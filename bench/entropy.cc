#include "bench/entropy.h"

#include <cmath>
#include <numeric>

namespace isthmus::bench {
namespace {

double NLogN(uint64_t n) {
  return n == 0 ? 0 : static_cast<double>(n) * std::log2(static_cast<double>(n));
}

// N·H2(n / N).
double PositionBits(uint64_t elements, uint64_t changed) {
  return NLogN(elements) - NLogN(changed) - NLogN(elements - changed);
}

using StepCounts = std::unordered_map<codec::PackedStep, uint64_t>;

double StepBits(const StepCounts& steps) {
  uint64_t total = 0;
  double bits = 0;
  for (const auto& [step, count] : steps) {
    total += count;
    bits -= NLogN(count);
  }
  return bits + NLogN(total);
}

uint64_t Sum(const std::array<uint64_t, 256>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

}  // namespace

template <uint32_t kBits>
void ChangeCounts::KindCounts::Add(codec::KeyRule rule, typename codec::Element<kBits>::Bits before,
                                   typename codec::Element<kBits>::Bits after) {
  const uint8_t key = codec::KeyOf<kBits>(before, rule);
  ++elements[key];
  if (before == after) return;
  ++changed[key];
  ++steps[key][codec::StepBetween<kBits>(before, after)];
}

void ChangeCounts::KindCounts::AddCodes(codec::KeyRule rule, ByteSpan before, ByteSpan after) {
  for (size_t i = 0; i < before.size(); ++i) {
    const auto from = std::to_integer<uint8_t>(before[i]);
    const auto to = std::to_integer<uint8_t>(after[i]);
    Add<4>(rule, from & 0x0F, to & 0x0F);
    Add<4>(rule, from >> 4, to >> 4);
  }
}

void ChangeCounts::KindCounts::AddUnits(codec::KeyRule rule, size_t unit_bytes, ByteSpan before,
                                        ByteSpan after) {
  const auto add = [&]<typename T>(T /*unit*/) {
    for (size_t at = 0; at < before.size(); at += sizeof(T)) {
      Add<8 * sizeof(T)>(rule, LoadLe<T>(before.data() + at), LoadLe<T>(after.data() + at));
    }
  };
  if (unit_bytes == 1) return add(uint8_t{});
  if (unit_bytes == 2) return add(uint16_t{});
  add(uint32_t{});
}

void ChangeCounts::Add(tensor::Dtype dtype, ByteSpan before, ByteSpan after) {
  const codec::Elements elements = ElementsOf(dtype);
  const codec::KeyRule rule = codec::KeyRuleOf(elements, dtype);
  KindCounts& kind = kinds_[dtype];
  if (elements == codec::Elements::kCodes4) return kind.AddCodes(rule, before, after);
  kind.AddUnits(rule, tensor::UnitBytes(dtype), before, after);
}

void ChangeCounts::Add(const ChangeCounts& other) {
  for (const auto& [dtype, from] : other.kinds_) {
    KindCounts& kind = kinds_[dtype];
    for (size_t key = 0; key < 256; ++key) {
      kind.elements[key] += from.elements[key];
      kind.changed[key] += from.changed[key];
      for (const auto& [step, count] : from.steps[key]) kind.steps[key][step] += count;
    }
  }
}

uint64_t ChangeCounts::elements() const {
  uint64_t sum = 0;
  for (const auto& [dtype, kind] : kinds_) sum += Sum(kind.elements);
  return sum;
}

uint64_t ChangeCounts::changed() const {
  uint64_t sum = 0;
  for (const auto& [dtype, kind] : kinds_) sum += Sum(kind.changed);
  return sum;
}

double ChangeCounts::BitsOf(const KindCounts& kind) {
  StepCounts steps;
  for (const StepCounts& of_key : kind.steps) {
    for (const auto& [step, count] : of_key) steps[step] += count;
  }
  return PositionBits(Sum(kind.elements), Sum(kind.changed)) + StepBits(steps);
}

double ChangeCounts::BitsByKey(const KindCounts& kind) {
  double bits = 0;
  for (size_t key = 0; key < 256; ++key) {
    bits += PositionBits(kind.elements[key], kind.changed[key]) + StepBits(kind.steps[key]);
  }
  return bits;
}

double ChangeCounts::BitsWithOneDensity() const {
  double bits = 0;
  for (const auto& [dtype, kind] : kinds_) bits += BitsOf(kind);
  return bits;
}

double ChangeCounts::BitsGivenKey() const {
  double bits = 0;
  for (const auto& [dtype, kind] : kinds_) bits += BitsByKey(kind);
  return bits;
}

}  // namespace isthmus::bench
