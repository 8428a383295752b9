#include "isthmus/codec/decode_tables.h"

#include <memory>

#include "isthmus/codec/element.h"

namespace isthmus::codec {
namespace {

using ExtraBits = std::array<uint8_t, kMaxSymbols>;

ExtraBits GapExtraBits() {
  ExtraBits extra{};
  for (uint32_t b = 0; b < kMaxGapBuckets; ++b) {
    extra[b] = static_cast<uint8_t>(BucketExtraBits<kGapM>(b));
  }
  return extra;
}

// The sign bit comes before the bucket's extra bits and is counted with them.
ExtraBits StepExtraBits() {
  ExtraBits extra{};
  for (uint32_t b = 0; b < kMaxStepBuckets; ++b) {
    extra[b] = static_cast<uint8_t>(BucketExtraBits<kStepM>(b) + 1);
  }
  return extra;
}

}  // namespace

DecodeTables::DecodeTables(const Model& model) : gaps{}, steps{}, skip_length{}, step_table{} {
  gap_start.fill(0);
  step_start.fill(0);
  for (uint32_t b = 0; b < kMaxGapBuckets; ++b) gap_start[b] = BucketStart<kGapM>(b);
  gap_start[kGapEnd] = kNoFurtherGap;
  for (uint32_t b = 0; b < kMaxStepBuckets; ++b) step_start[b] = BucketStart<kStepM>(b);

  const ExtraBits gap_extra = GapExtraBits();
  const ExtraBits step_extra = StepExtraBits();
  for (size_t i = 0; i < model.step_tables.size(); ++i) {
    BuildTansDecodeTable(ExpandStepTable(model.step_tables[i]), step_extra, &steps[i]);
  }
  for (size_t c = 0; c < model.classes.size(); ++c) {
    GapCounts counts;
    ExpandGapTable(model.classes[c].gap, &counts);  // Model::Read saw that it can
    BuildTansDecodeTable(counts.counts, gap_extra, &gaps[c]);
    skip_length[c] = counts.skip_length;
    step_table[c] = model.classes[c].step_table;
  }
}

const DecodeTables& TablesFor(const Model& model) {
  struct Cached {
    Model model;
    DecodeTables tables;
  };
  thread_local std::unique_ptr<const Cached> cached;
  if (cached == nullptr || cached->model != model) {
    cached = std::make_unique<const Cached>(Cached{model, DecodeTables(model)});
  }
  return cached->tables;
}

}  // namespace isthmus::codec
