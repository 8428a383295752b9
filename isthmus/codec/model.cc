#include "isthmus/codec/model.h"

#include <algorithm>

#include "isthmus/base/error.h"

namespace isthmus::codec {
namespace {

void WriteCounts(const BucketCounts& counts, ByteWriter* out) {
  out->U8(static_cast<uint8_t>(counts.size()));
  for (const uint16_t count : counts) out->Varint(count);
}

void WriteGapTable(const GapTable& table, ByteWriter* out) {
  out->U8(static_cast<uint8_t>(table.kind));
  if (table.kind == GapKind::kGeometric) {
    out->U8(table.a);
    out->U8(table.e);
    return;
  }
  out->Varint(table.end);
  WriteCounts(table.buckets, out);
}

uint8_t ReadSmall(ByteReader* in, std::string_view field, uint32_t least, uint32_t most) {
  const uint8_t value = in->U8();
  if (value < least || value > most) {
    Throw(ErrorCode::kCorrupt, "read model: {} is {}, {} to {} allowed", field, value, least, most);
  }
  return value;
}

// Counts that sum up to kTansStates with `others`.
BucketCounts ReadCounts(ByteReader* in, uint32_t max_buckets, uint32_t others) {
  BucketCounts counts(ReadSmall(in, "number of counts", 1, max_buckets));
  uint64_t sum = others;
  for (uint16_t& count : counts) {
    const uint64_t value = in->Varint();
    if (value > kTansStates) {
      Throw(ErrorCode::kCorrupt, "read model: a count of {}, at most {} allowed", value,
            kTansStates);
    }
    count = static_cast<uint16_t>(value);
    sum += value;
  }
  if (counts.back() == 0 || sum != kTansStates) {
    Throw(ErrorCode::kCorrupt,
          "read model: counts sum up to {} and end with {}, expected {}, not 0", sum, counts.back(),
          kTansStates);
  }
  return counts;
}

GapTable ReadGapTable(ByteReader* in) {
  GapTable table;
  table.kind = static_cast<GapKind>(ReadSmall(in, "kind of gap table", 0, 1));
  if (table.kind == GapKind::kGeometric) {
    table.a = in->U8();
    table.e = in->U8();
    GapCounts counts;
    if (!ExpandGapTable(table, &counts)) {
      Throw(ErrorCode::kCorrupt,
            "read model: geometric gap table a {}, e {}: more symbols than states", table.a,
            table.e);
    }
    return table;
  }
  const uint64_t end = in->Varint();
  if (end == 0 || end >= kTansStates) {
    Throw(ErrorCode::kCorrupt, "read model: END count {}, 1 to {} allowed", end, kTansStates - 1);
  }
  table.end = static_cast<uint16_t>(end);
  table.buckets = ReadCounts(in, kMaxGapBuckets, table.end);
  return table;
}

void ReadThresholds(ByteReader* in, std::vector<uint8_t>* thresholds) {
  uint32_t previous = 0;
  for (uint8_t& threshold : *thresholds) {
    threshold = in->U8();
    if (threshold <= previous) {
      Throw(ErrorCode::kCorrupt, "read model: threshold {} after {}, expected ascending ones",
            threshold, previous);
    }
    previous = threshold;
  }
}

}  // namespace

void Model::Write(ByteWriter* out) const {
  out->U8(static_cast<uint8_t>(elements));
  out->U8(static_cast<uint8_t>(classes.size()));
  for (const uint8_t threshold : thresholds) out->U8(threshold);
  out->U8(static_cast<uint8_t>(step_tables.size()));
  for (const BucketCounts& table : step_tables) WriteCounts(table, out);
  for (const Class& entry : classes) {
    out->U8(entry.step_table);
    WriteGapTable(entry.gap, out);
  }
}

Model Model::Read(ByteReader* in) {
  Model model;
  model.elements = static_cast<Elements>(ReadSmall(in, "kind of elements", 0, 1));
  model.classes.resize(ReadSmall(in, "number of classes", 1, kMaxClasses));
  model.thresholds.resize(model.classes.size() - 1);
  ReadThresholds(in, &model.thresholds);
  model.step_tables.resize(ReadSmall(in, "number of step tables", 1, kMaxStepTables));
  for (BucketCounts& table : model.step_tables) table = ReadCounts(in, kMaxStepBuckets, 0);
  for (Class& entry : model.classes) {
    entry.step_table =
        ReadSmall(in, "step table", 0, static_cast<uint32_t>(model.step_tables.size()) - 1);
    entry.gap = ReadGapTable(in);
  }
  return model;
}

SymbolCounts ExpandStepTable(const BucketCounts& table) {
  SymbolCounts counts{};
  std::copy(table.begin(), table.end(), counts.begin());
  return counts;
}

}  // namespace isthmus::codec
