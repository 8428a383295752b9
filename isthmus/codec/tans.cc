#include "isthmus/codec/tans.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "isthmus/base/error.h"

namespace isthmus::codec {
namespace {

constexpr uint32_t kSpreadStep = 323;  // (512 / 2) + (512 / 8) + 3, odd: reaches every state

// The symbol of each state.
std::array<uint8_t, kTansStates> Spread(const SymbolCounts& counts) {
  std::array<uint8_t, kTansStates> symbols{};
  uint32_t position = 0;
  uint32_t placed = 0;
  for (uint32_t symbol = 0; symbol < kMaxSymbols; ++symbol) {
    for (uint32_t i = 0; i < counts[symbol]; ++i) {
      symbols[position] = static_cast<uint8_t>(symbol);
      position = (position + kSpreadStep) % kTansStates;
      ++placed;
    }
  }
  if (placed != kTansStates) {
    Throw(ErrorCode::kInternal, "build coder table: counts sum up to {}, expected {}", placed,
          kTansStates);
  }
  return symbols;
}

uint32_t FloorLog2(uint32_t value) { return static_cast<uint32_t>(std::bit_width(value)) - 1; }

}  // namespace

void BuildTansDecodeTable(const SymbolCounts& counts,
                          const std::array<uint8_t, kMaxSymbols>& extra_bits,
                          TansDecodeTable* table) {
  const auto symbols = Spread(counts);
  SymbolCounts x = counts;
  for (uint32_t state = 0; state < kTansStates; ++state) {
    const uint32_t symbol = symbols[state];
    const uint32_t value = x[symbol]++;
    const uint32_t bits = kTansBits - FloorLog2(value);
    const uint32_t next = (value << bits) - kTansStates;
    (*table)[state].packed = next | bits << 9 | uint32_t{extra_bits[symbol]} << 13 | symbol << 18;
  }
}

TansEncodeTable::TansEncodeTable(const SymbolCounts& counts) {
  const auto symbols = Spread(counts);
  std::array<uint32_t, kMaxSymbols> place{};
  uint32_t first = 0;
  for (uint32_t symbol = 0; symbol < kMaxSymbols; ++symbol) {
    const uint32_t count = counts[symbol];
    place[symbol] = first;
    if (count == 0) continue;
    // A state x in [512, 1024) leaves through the bits that bring it into [count, 2 count).
    const uint32_t bits = kTansBits - (count == 1 ? 0 : FloorLog2(count - 1));
    symbols_[symbol].delta_bits = (bits << 16) - (count << bits);
    symbols_[symbol].first_state = static_cast<int32_t>(first) - static_cast<int32_t>(count);
    first += count;
  }
  for (uint32_t state = 0; state < kTansStates; ++state) {
    states_[place[symbols[state]]++] = static_cast<uint16_t>(state);
  }
}

void NormalizeCounts(std::span<const uint64_t> weights, uint32_t total,
                     std::span<uint16_t> counts) {
  double sum = 0;
  for (const uint64_t weight : weights) sum += static_cast<double>(weight);
  int32_t left = static_cast<int32_t>(total);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double share = static_cast<double>(weights[i]) / sum * total;
    counts[i] = static_cast<uint16_t>(weights[i] == 0 ? 0.0 : std::max(1.0, std::floor(share)));
    left -= counts[i];
  }
  // One by one to (or from) the symbol that gains most (or loses least) by it.
  for (; left != 0; left += left > 0 ? -1 : 1) {
    size_t best = weights.size();
    double best_gain = -INFINITY;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0 || (left < 0 && counts[i] == 1)) continue;
      const double next = left > 0 ? counts[i] + 1.0 : counts[i] - 1.0;
      const double gain = static_cast<double>(weights[i]) * std::log2(next / counts[i]);
      if (gain > best_gain) {
        best_gain = gain;
        best = i;
      }
    }
    counts[best] = static_cast<uint16_t>(counts[best] + (left > 0 ? 1 : -1));
  }
}

double TansCost(double frequency, uint32_t count) {
  return frequency * (static_cast<double>(kTansBits) - std::log2(static_cast<double>(count)));
}

}  // namespace isthmus::codec
