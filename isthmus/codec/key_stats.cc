#include "isthmus/codec/key_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace isthmus::codec {
namespace {

// More ranges of keys than this would not pay for the time: keys are joined to so many.
constexpr size_t kMaxBins = 48;

// What a class and a model take in a part's tables, about.
constexpr double kClassBits = 40;
constexpr double kModelBits = 160;
// What a class that is fitted to a sample seems to save without need, in bits of the sample. About
// half a nat for each of the four numbers that are fitted would be 3; measured on generated models,
// 16 gives the smallest files, because the best of many fits is taken.
constexpr double kFittedBits = 16;

double PlogP(double x) { return x <= 0 ? 0 : x * std::log2(x); }

// A range of neighbouring keys, all numbers summed up from the first bin on.
struct Bin {
  uint8_t first_key = 0;
  double population = 0;
  double changes = 0;
  std::array<double, kStatStepBuckets> steps = {};
};

// One bin for each `width` keys that occur, with running sums.
std::vector<Bin> MakeBins(const KeyStats& stats, size_t width) {
  std::vector<Bin> bins = {Bin()};
  size_t in_bin = 0;
  for (size_t key = 0; key < 256; ++key) {
    if (stats.population[key] == 0 && stats.changes[key] == 0) continue;
    if (in_bin % width == 0) {
      bins.push_back(bins.back());
      bins.back().first_key = static_cast<uint8_t>(key);
    }
    ++in_bin;
    Bin& bin = bins.back();
    bin.population += std::max(stats.population[key], stats.changes[key]);
    bin.changes += stats.changes[key];
    for (size_t b = 0; b < kStatStepBuckets; ++b) bin.steps[b] += stats.steps[key][b];
  }
  return bins;
}

std::vector<Bin> MakeBins(const KeyStats& stats) {
  for (size_t width = 1;; width *= 2) {
    std::vector<Bin> bins = MakeBins(stats, width);
    if (bins.size() <= kMaxBins + 1) return bins;
  }
}

// Bits of a class of the bins (from, to]; `scale`: elements for each that was compared.
double ClassBits(const std::vector<Bin>& bins, size_t from, size_t to, double chunks,
                 double scale) {
  const double changes = bins[to].changes - bins[from].changes;
  if (changes <= 0) return kClassBits / 2;
  const double population = bins[to].population - bins[from].population;
  double bits = kClassBits + kFittedBits * scale + PlogP(population) - PlogP(changes) -
                PlogP(population - changes);
  bits += chunks * std::log2(changes / chunks + 1);  // END
  bits += PlogP(changes);
  for (size_t b = 0; b < kStatStepBuckets; ++b) {
    bits -= PlogP(bins[to].steps[b] - bins[from].steps[b]);
  }
  return bits;
}

}  // namespace

void KeyStats::Add(const KeySample& chunk) {
  const auto scale = [&chunk](uint64_t sampled) {
    return sampled == 0 ? 0 : static_cast<double>(chunk.elements) / static_cast<double>(sampled);
  };
  for (size_t key = 0; key < 256; ++key) {
    population[key] += scale(chunk.counted) * chunk.counted_keys[key];
  }
  const double each = scale(chunk.compared);
  for (size_t i = 0; i < chunk.keys.size(); ++i) {
    changes[chunk.keys[i]] += each;
    const uint32_t bucket = BucketOf<kStepM>(chunk.steps[i] >> 1).bucket;
    steps[chunk.keys[i]][std::min<size_t>(bucket, kStatStepBuckets - 1)] += each;
  }
  ++chunks;
  elements += chunk.elements;
  compared += chunk.compared;
}

void KeyStats::Add(const KeyStats& other) {
  for (size_t key = 0; key < 256; ++key) {
    population[key] += other.population[key];
    changes[key] += other.changes[key];
    for (size_t b = 0; b < kStatStepBuckets; ++b) steps[key][b] += other.steps[key][b];
  }
  chunks += other.chunks;
  elements += other.elements;
  compared += other.compared;
}

ClassChoice ChooseClasses(const KeyStats& stats, size_t max_classes) {
  const std::vector<Bin> bins = MakeBins(stats);
  const size_t count = bins.size() - 1;
  const auto chunks = static_cast<double>(std::max<uint64_t>(stats.chunks, 1));
  const double scale = stats.compared == 0 ? 1
                                           : static_cast<double>(stats.elements) /
                                                 static_cast<double>(stats.compared);
  // best[k][i]: bits of the first i bins in k classes; the last of these begins behind bin
  // from[k][i].
  const double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(max_classes + 1, std::vector<double>(count + 1, never));
  std::vector<std::vector<size_t>> from(max_classes + 1, std::vector<size_t>(count + 1, 0));
  best[0][0] = 0;
  for (size_t to = 1; to <= count; ++to) {
    for (size_t start = 0; start < to; ++start) {
      const double bits = ClassBits(bins, start, to, chunks, scale);
      for (size_t k = 1; k <= max_classes; ++k) {
        if (best[k - 1][start] + bits >= best[k][to]) continue;
        best[k][to] = best[k - 1][start] + bits;
        from[k][to] = start;
      }
    }
  }
  size_t k = 1;
  for (size_t more = 2; more <= max_classes; ++more) {
    if (best[more][count] < best[k][count]) k = more;
  }
  ClassChoice choice;
  choice.bits = kModelBits + best[k][count];
  for (size_t at = count; k > 1; --k) {
    at = from[k][at];
    choice.thresholds.push_back(bins[at + 1].first_key);
  }
  std::ranges::reverse(choice.thresholds);
  return choice;
}

}  // namespace isthmus::codec
