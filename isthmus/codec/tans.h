// The entropy coder of sparse payloads: tANS with 512 states (docs/patch-format.md, 3.5).
#ifndef ISTHMUS_CODEC_TANS_H_
#define ISTHMUS_CODEC_TANS_H_

#include <array>
#include <cstdint>
#include <span>

namespace isthmus::codec {

inline constexpr uint32_t kTansBits = 9;
inline constexpr uint32_t kTansStates = 1u << kTansBits;
inline constexpr uint32_t kMaxSymbols = 128;

// Symbol counts of a table. Their sum is kTansStates.
using SymbolCounts = std::array<uint16_t, kMaxSymbols>;

// What a decoder does in one state, packed into 32 bits so that a chunk's tables fit a core's
// first-level cache: bits 0-8 the next state without the bits read, 9-12 how many those are,
// 13-17 the extra bits that follow them, 18-24 the symbol.
struct TansEntry {
  uint32_t packed = 0;

  uint32_t next() const { return packed & 0x1FF; }
  uint32_t state_bits() const { return (packed >> 9) & 0xF; }
  uint32_t extra_bits() const { return (packed >> 13) & 0x1F; }
  uint32_t symbol() const { return packed >> 18; }
};
using TansDecodeTable = std::array<TansEntry, kTansStates>;

// `extra_bits[symbol]` is stored with every state of the symbol.
void BuildTansDecodeTable(const SymbolCounts& counts,
                          const std::array<uint8_t, kMaxSymbols>& extra_bits,
                          TansDecodeTable* table);

// The way back. Encoding runs from the last symbol to the first.
class TansEncodeTable {
 public:
  explicit TansEncodeTable(const SymbolCounts& counts);

  struct Step {
    uint32_t state;  // the decoder's state before it reads the symbol
    uint32_t bits;   // what it reads to come to `after`
    uint32_t bit_count;
  };
  // The symbol's count must not be 0; `after` is a state.
  Step Encode(uint32_t symbol, uint32_t after) const {
    const Symbol& s = symbols_[symbol];
    const uint32_t x = after + kTansStates;
    const uint32_t bit_count = (x + s.delta_bits) >> 16;
    return {states_[static_cast<uint32_t>(s.first_state + static_cast<int32_t>(x >> bit_count))],
            x & ((1u << bit_count) - 1), bit_count};
  }

 private:
  struct Symbol {
    uint32_t delta_bits = 0;  // (bits << 16) - (count << bits), for the larger number of bits
    int32_t first_state = 0;  // place of the symbol's states in states_, less its count
  };
  std::array<Symbol, kMaxSymbols> symbols_{};
  std::array<uint16_t, kTansStates> states_{};  // by symbol, ascending
};

// Counts that sum up to `total` in proportion to `weights`, at least 1 for each weight above 0.
// There must be one such weight at least, and at most `total` of them.
void NormalizeCounts(std::span<const uint64_t> weights, uint32_t total, std::span<uint16_t> counts);

// Bits that coding `frequency` symbols takes where they have `count` of the states.
double TansCost(double frequency, uint32_t count);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_TANS_H_
