#include "isthmus/codec/tans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace isthmus::codec {
namespace {

double Sum(const std::vector<uint64_t>& weights) {
  double sum = 0;
  for (const uint64_t weight : weights) sum += static_cast<double>(weight);
  return sum;
}

double Entropy(const std::vector<uint64_t>& weights) {
  const double sum = Sum(weights);
  double bits = 0;
  for (const uint64_t weight : weights) {
    if (weight > 0)
      bits -= static_cast<double>(weight) * std::log2(static_cast<double>(weight) / sum);
  }
  return bits;
}

double Cost(const std::vector<uint64_t>& weights, const SymbolCounts& counts) {
  double bits = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) bits += TansCost(static_cast<double>(weights[i]), counts[i]);
  }
  return bits;
}

SymbolCounts Normalized(const std::vector<uint64_t>& weights, uint32_t total = kTansStates) {
  SymbolCounts counts{};
  NormalizeCounts(weights, total, std::span(counts).first(weights.size()));
  return counts;
}

// Some symbols without weight; the others even or very skewed.
std::vector<uint64_t> RandomWeights(std::mt19937* random) {
  std::vector<uint64_t> weights(1 + (*random)() % kMaxSymbols);
  const bool skewed = (*random)() % 2 == 0;
  for (uint64_t& weight : weights) {
    if ((*random)() % 4 == 0) continue;
    weight = 1 + (*random)() % 1000;
    if (skewed) weight = weight << ((*random)() % 40);
  }
  weights.back() = 1 + (*random)() % 1000;
  return weights;
}

class TansTest : public ::testing::Test {
 protected:
  TansTest() : seed_(std::random_device()()), trace_(__FILE__, __LINE__, seed_), random_(seed_) {}

  unsigned seed_;
  ::testing::ScopedTrace trace_;
  std::mt19937 random_;
};

std::array<uint8_t, kMaxSymbols> SomeExtraBits() {
  std::array<uint8_t, kMaxSymbols> extra{};
  for (size_t i = 0; i < extra.size(); ++i) extra[i] = static_cast<uint8_t>(i * 7 % 31);
  return extra;
}

// What the encoder writes before any state, the decoder turns into that state.
void ExpectEncodedIsDecoded(const SymbolCounts& counts, const TansDecodeTable& decode) {
  const TansEncodeTable encode(counts);
  for (uint32_t symbol = 0; symbol < kMaxSymbols; ++symbol) {
    if (counts[symbol] == 0) continue;
    for (uint32_t after = 0; after < kTansStates; ++after) {
      const TansEncodeTable::Step step = encode.Encode(symbol, after);
      ASSERT_LT(step.state, kTansStates);
      const TansEntry entry = decode[step.state];
      ASSERT_EQ(entry.symbol(), symbol);
      ASSERT_EQ(entry.state_bits(), step.bit_count);
      ASSERT_EQ(entry.next() + step.bits, after);
    }
  }
}

// Whatever the decoder does in a state, the encoder would have led it to.
void ExpectDecodedIsEncoded(const SymbolCounts& counts, const TansDecodeTable& decode) {
  const TansEncodeTable encode(counts);
  const auto extra = SomeExtraBits();
  for (uint32_t state = 0; state < kTansStates; ++state) {
    const TansEntry entry = decode[state];
    ASSERT_EQ(entry.extra_bits(), extra[entry.symbol()]);
    for (uint32_t bits = 0; bits < 1U << entry.state_bits(); ++bits) {
      const auto step = encode.Encode(entry.symbol(), entry.next() + bits);
      ASSERT_EQ(step.state, state);
      ASSERT_EQ(step.bits, bits);
      ASSERT_EQ(step.bit_count, entry.state_bits());
    }
  }
}

void ExpectBothDirections(const SymbolCounts& counts) {
  TansDecodeTable decode{};
  BuildTansDecodeTable(counts, SomeExtraBits(), &decode);
  ExpectEncodedIsDecoded(counts, decode);
  ExpectDecodedIsEncoded(counts, decode);
}

TEST_F(TansTest, EveryStateOfRandomTablesDecodesWhatWasEncoded) {
  for (int i = 0; i < 40; ++i) ExpectBothDirections(Normalized(RandomWeights(&random_)));
}

TEST_F(TansTest, OneSymbolTakesNoBits) {
  SymbolCounts counts{};
  counts[127] = kTansStates;
  ExpectBothDirections(counts);
  EXPECT_EQ(TansEncodeTable(counts).Encode(127, 300).bit_count, 0U);
  EXPECT_EQ(TansCost(1000, kTansStates), 0);
}

// docs/patch-format.md, 3.5, by hand: positions go on by 323.
TEST_F(TansTest, StatesLieWhereTheFormatSays) {
  SymbolCounts counts{};
  counts[3] = 2;
  counts[9] = 510;
  TansDecodeTable decode{};
  BuildTansDecodeTable(counts, SomeExtraBits(), &decode);
  for (uint32_t state = 0; state < kTansStates; ++state) {
    EXPECT_EQ(decode[state].symbol(), state == 0 || state == 323 ? 3U : 9U);
  }
  EXPECT_EQ(decode[0].state_bits(), 8U);    // x = 2: 9 - 1
  EXPECT_EQ(decode[0].next(), 0U);          // 2 * 2^8 - 512
  EXPECT_EQ(decode[323].state_bits(), 8U);  // x = 3
  EXPECT_EQ(decode[323].next(), 256U);
  EXPECT_EQ(decode[1].state_bits(), 1U);  // x = 510
  EXPECT_EQ(decode[1].next(), 508U);
  EXPECT_EQ(decode[3].state_bits(), 0U);  // x = 512
  EXPECT_EQ(decode[3].next(), 0U);
}

TEST_F(TansTest, NormalizedCountsSumUpAndKeepEverySymbol) {
  for (int i = 0; i < 1000; ++i) {
    const std::vector<uint64_t> weights = RandomWeights(&random_);
    const auto used = static_cast<uint32_t>(
        std::ranges::count_if(weights, [](uint64_t weight) { return weight > 0; }));
    const uint32_t total = used + static_cast<uint32_t>(random_() % (kTansStates - used + 1));
    const SymbolCounts counts = Normalized(weights, total);
    uint32_t sum = 0;
    for (size_t s = 0; s < weights.size(); ++s) {
      ASSERT_EQ(counts[s] > 0, weights[s] > 0);
      sum += counts[s];
    }
    ASSERT_EQ(sum, total);
  }
}

TEST_F(TansTest, NormalizedCountsCostLittleMoreThanTheEntropy) {
  for (int i = 0; i < 200; ++i) {
    std::vector<uint64_t> weights(2 + random_() % 40);
    for (uint64_t& weight : weights) weight = 1 + random_() % 1000;
    const double entropy = Entropy(weights);
    const double cost = Cost(weights, Normalized(weights));
    ASSERT_GE(cost, entropy * (1 - 1e-9));
    ASSERT_LE(cost, entropy * 1.01 + 0.002 * Sum(weights));
  }
}

TEST_F(TansTest, CodedSymbolsTakeWhatTheCostSays) {
  const std::vector<uint64_t> weights = {500, 250, 125, 60, 30, 20, 10, 5};
  const TansEncodeTable encode(Normalized(weights));
  std::discrete_distribution<uint32_t> draw(weights.begin(), weights.end());
  constexpr int kSymbols = 200000;
  std::vector<uint64_t> drawn(weights.size());
  uint32_t state = 0;
  double bits = 0;
  for (int i = 0; i < kSymbols; ++i) {
    const uint32_t symbol = draw(random_);
    ++drawn[symbol];
    const auto step = encode.Encode(symbol, state);
    state = step.state;
    bits += step.bit_count;
  }
  const double cost = Cost(drawn, Normalized(weights));
  EXPECT_NEAR(bits / cost, 1, 0.005);
  EXPECT_NEAR(bits / Entropy(drawn), 1, 0.01);
}

}  // namespace
}  // namespace isthmus::codec
