#include "isthmus/codec/model_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace isthmus::codec {
namespace {

using ClassCounts = ModelBuilder::ClassCounts;
using StepFrequencies = std::array<uint64_t, kMaxStepBuckets>;

// More tables than this push each other out of the first-level cache.
constexpr size_t kUsefulStepTables = 4;

// Trailing zeros left out.
template <size_t kCount>
std::span<const uint64_t> Used(const std::array<uint64_t, kCount>& frequencies) {
  size_t used = kCount;
  while (used > 0 && frequencies[used - 1] == 0) --used;
  return std::span(frequencies).first(used);
}

BucketCounts Normalize(std::span<const uint64_t> frequencies, uint32_t total) {
  BucketCounts counts(frequencies.size());
  NormalizeCounts(frequencies, total, counts);
  return counts;
}

double TableBits(const BucketCounts& counts) {
  double bits = 8;
  for (const uint16_t count : counts) bits += count < 128 ? 8 : 16;
  return bits;
}

double CodedBits(std::span<const uint64_t> frequencies, const BucketCounts& counts) {
  double bits = 0;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    if (frequencies[i] > 0) bits += TansCost(static_cast<double>(frequencies[i]), counts[i]);
  }
  return bits;
}

// Gap tables

uint8_t Eighths(double probability) {  // probability is about 2^(-result / 8)
  return static_cast<uint8_t>(std::clamp(std::round(-8 * std::log2(probability)), 0.0, 255.0));
}

// What the gaps cost with a geometric table; gaps that need SKIP as if the rest behind it were like
// all gaps.
double GeometricBits(const ClassCounts& counts, const GapCounts& table, uint64_t chunks) {
  double within = 0;
  double coded = 0;
  double skips = 0;
  double beyond = 0;
  for (uint32_t b = 0; b < kMaxGapBuckets; ++b) {
    if (counts.gaps[b] == 0) continue;
    const auto frequency = static_cast<double>(counts.gaps[b]);
    const uint32_t start = BucketStart<kGapM>(b);
    if (table.skip_length == 0 || start < table.skip_length) {
      within += frequency;
      coded += TansCost(frequency, table.counts[b]) + frequency * BucketExtraBits<kGapM>(b);
    } else {
      beyond += frequency;
      const uint32_t times = start / table.skip_length;
      skips += frequency * times;
    }
  }
  if (table.skip_length != 0) coded += TansCost(skips, table.counts[kGapSkip]);
  const double each = within > 0 ? coded / within : kTansBits;
  return coded + beyond * each + TansCost(static_cast<double>(chunks), table.counts[kGapEnd]);
}

struct GapChoice {
  GapTable table;
  double bits;
};

GapChoice BestGeometric(const ClassCounts& counts, uint64_t chunks) {
  const auto changes = static_cast<double>(counts.changes);
  const uint8_t a = Eighths(changes / (static_cast<double>(counts.gap_sum) + changes));
  const uint8_t e = Eighths(static_cast<double>(chunks) / (changes + static_cast<double>(chunks)));
  GapChoice best = {{}, INFINITY};
  for (int delta = -1; delta <= 1; ++delta) {
    GapTable table;
    table.a = static_cast<uint8_t>(std::clamp(a + delta, 0, 255));
    table.e = std::max<uint8_t>(e, 1);  // 0 would leave no room for changes
    GapCounts expanded;
    if (!ExpandGapTable(table, &expanded) || expanded.counts[kGapEnd] == kTansStates) continue;
    const double bits = GeometricBits(counts, expanded, chunks) + 16;
    if (bits < best.bits) best = {table, bits};
  }
  return best;
}

GapChoice BestExplicit(const ClassCounts& counts, uint64_t chunks) {
  std::vector<uint64_t> frequencies = {chunks};  // END first
  const auto used = Used(counts.gaps);
  frequencies.insert(frequencies.end(), used.begin(), used.end());
  BucketCounts all = Normalize(frequencies, kTansStates);
  double bits = CodedBits(frequencies, all) + TableBits(all);
  for (uint32_t b = 0; b < used.size(); ++b) {
    bits += static_cast<double>(used[b]) * BucketExtraBits<kGapM>(b);
  }
  GapTable table;
  table.kind = GapKind::kExplicit;
  table.end = all.front();
  table.buckets.assign(all.begin() + 1, all.end());
  return {table, bits};
}

GapTable ChooseGapTable(const ClassCounts& counts, uint64_t chunks) {
  if (counts.changes == 0) return {};  // END only
  const GapChoice geometric = BestGeometric(counts, chunks);
  const GapChoice spelled_out = BestExplicit(counts, chunks);
  return geometric.bits <= spelled_out.bits ? geometric.table : spelled_out.table;
}

// Step tables

// Classes that share a table.
struct StepGroup {
  StepFrequencies frequencies{};
  std::vector<size_t> classes;
  double bits = 0;

  void Measure() {
    const auto used = Used(frequencies);
    const BucketCounts counts = Normalize(used, kTansStates);
    bits = CodedBits(used, counts) + TableBits(counts);
  }
};

StepGroup Merge(const StepGroup& a, const StepGroup& b) {
  StepGroup merged = a;
  for (size_t i = 0; i < kMaxStepBuckets; ++i) merged.frequencies[i] += b.frequencies[i];
  merged.classes.insert(merged.classes.end(), b.classes.begin(), b.classes.end());
  merged.Measure();
  return merged;
}

// Joins the neighbours that lose least, as long as that saves bits or there are too many tables.
// Neighbours only: what steps look like changes steadily with the key.
void MergeGroups(std::vector<StepGroup>* groups) {
  while (groups->size() > 1) {
    size_t best = 0;
    double best_loss = INFINITY;
    StepGroup best_merged;
    for (size_t i = 0; i + 1 < groups->size(); ++i) {
      StepGroup merged = Merge((*groups)[i], (*groups)[i + 1]);
      const double loss = merged.bits - (*groups)[i].bits - (*groups)[i + 1].bits;
      if (loss >= best_loss) continue;
      best_loss = loss;
      best = i;
      best_merged = std::move(merged);
    }
    if (best_loss >= 0 && groups->size() <= kUsefulStepTables) return;
    (*groups)[best] = std::move(best_merged);
    groups->erase(groups->begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

void ChooseStepTables(const std::vector<ClassCounts>& classes, Model* model) {
  std::vector<StepGroup> groups;
  for (size_t c = 0; c < classes.size(); ++c) {
    if (classes[c].changes == 0) continue;
    groups.push_back({classes[c].steps, {c}, 0});
    groups.back().Measure();
  }
  MergeGroups(&groups);
  for (const StepGroup& group : groups) {
    for (const size_t c : group.classes) {
      model->classes[c].step_table = static_cast<uint8_t>(model->step_tables.size());
    }
    model->step_tables.push_back(Normalize(Used(group.frequencies), kTansStates));
  }
  if (groups.empty()) model->step_tables.push_back({kTansStates});
}

}  // namespace

ModelBuilder::ModelBuilder(Elements elements, std::vector<uint8_t> thresholds)
    : elements_(elements), thresholds_(std::move(thresholds)), classes_(thresholds_.size() + 1) {}

void ModelBuilder::Add(const SparseEvents& events) {
  for (size_t i = 0; i < events.gaps.size(); ++i) {
    ClassCounts& counts = classes_[events.classes[i]];
    ++counts.gaps[BucketOf<kGapM>(events.gaps[i]).bucket];
    ++counts.steps[BucketOf<kStepM>(events.steps[i] >> 1).bucket];
    counts.gap_sum += events.gaps[i];
    ++counts.changes;
  }
  ++chunks_;
}

Model ModelBuilder::Build() const {
  Model model;
  model.elements = elements_;
  model.thresholds = thresholds_;
  model.classes.resize(classes_.size());
  for (size_t c = 0; c < classes_.size(); ++c) {
    model.classes[c].gap = ChooseGapTable(classes_[c], chunks_);
  }
  ChooseStepTables(classes_, &model);
  return model;
}

}  // namespace isthmus::codec
