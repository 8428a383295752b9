#include "fuzz/sparse_models.h"

namespace isthmus::fuzz {
namespace {

using codec::BucketCounts;
using codec::Elements;
using codec::GapKind;
using codec::GapTable;
using codec::Model;

// The first symbol takes what the others leave.
BucketCounts Mostly(size_t symbols, uint16_t each) {
  BucketCounts counts(symbols, each);
  counts.front() = static_cast<uint16_t>(codec::kTansStates - (symbols - 1) * each);
  return counts;
}

GapTable Geometric(uint8_t a, uint8_t e) { return {GapKind::kGeometric, a, e, 0, {}}; }

GapTable Explicit(size_t symbols, uint16_t end) {
  GapTable table = {GapKind::kExplicit, 0, 0, end, Mostly(symbols, 2)};
  table.buckets.front() = static_cast<uint16_t>(table.buckets.front() - end);
  return table;
}

// Classes with steps between them that differ, thresholds `width` apart.
Model Classes(Elements elements, size_t count, uint8_t width) {
  Model model;
  model.elements = elements;
  model.step_tables = {{codec::kTansStates}, Mostly(8, 20), Mostly(40, 5)};
  for (size_t c = 0; c < count; ++c) {
    if (c > 0) model.thresholds.push_back(static_cast<uint8_t>(c * width));
    const auto spread = static_cast<uint8_t>(4 + 12 * c);
    const GapTable gaps = c % 3 == 2 ? Explicit(10 + c, 3) : Geometric(spread, 30);
    model.classes.push_back({static_cast<uint8_t>(c % model.step_tables.size()), gaps});
  }
  return model;
}

// Steps of all sizes, the longest buckets of gaps.
Model Widest(size_t count) {
  Model model = Classes(Elements::kUnits, count, 16);
  model.step_tables = {Mostly(codec::kMaxStepBuckets, 1)};
  for (Model::Class& entry : model.classes) entry = {0, Explicit(codec::kMaxGapBuckets, 1)};
  return model;
}

}  // namespace

const std::vector<Model>& SparseModels() {
  static const std::vector<Model> models = {
      Classes(Elements::kUnits, 1, 0),
      Classes(Elements::kCodes4, 1, 0),
      Widest(1),
      Classes(Elements::kUnits, 8, 7),
      Classes(Elements::kUnits, 3, 40),
      Classes(Elements::kCodes4, 8, 1),
      Classes(Elements::kUnits, 16, 9),
      Widest(16),
  };
  return models;
}

}  // namespace isthmus::fuzz
