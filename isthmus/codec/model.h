// The model of a sparse payload: classes, and the symbol counts of their gaps and steps
// (docs/patch-format.md, 3.4).
#ifndef ISTHMUS_CODEC_MODEL_H_
#define ISTHMUS_CODEC_MODEL_H_

#include <cstdint>
#include <vector>

#include "isthmus/base/bytes.h"
#include "isthmus/codec/element.h"
#include "isthmus/codec/tans.h"

namespace isthmus::codec {

inline constexpr size_t kMaxClasses = 16;
inline constexpr size_t kMaxStepTables = 16;

// Symbols of a gap table that are no bucket.
inline constexpr uint32_t kGapSkip = 62;
inline constexpr uint32_t kGapEnd = 63;

enum class GapKind : uint8_t { kGeometric = 0, kExplicit = 1 };

// Counts of buckets 0, 1, …; trailing zeros are left out.
using BucketCounts = std::vector<uint16_t>;

struct GapTable {
  GapKind kind = GapKind::kGeometric;
  uint8_t a = 0;  // geometric: a change has the probability 2^(-a/8)
  uint8_t e = 0;  // geometric: END has the probability 2^(-e/8)
  uint16_t end = 0;
  BucketCounts buckets;
  bool operator==(const GapTable&) const = default;
};

struct Model {
  struct Class {
    uint8_t step_table = 0;
    GapTable gap;
    bool operator==(const Class&) const = default;
  };

  Elements elements = Elements::kUnits;
  std::vector<uint8_t> thresholds;  // one less than classes
  std::vector<BucketCounts> step_tables;
  std::vector<Class> classes;

  void Write(ByteWriter* out) const;
  // kCorrupt for anything that breaks a rule of the format.
  static Model Read(ByteReader* in);
  bool operator==(const Model&) const = default;
};

// A gap table spelled out. False if a geometric table cannot hold its symbols.
struct GapCounts {
  SymbolCounts counts{};
  uint32_t skip_length = 0;  // 0: no SKIP
};
bool ExpandGapTable(const GapTable& table, GapCounts* out);
SymbolCounts ExpandStepTable(const BucketCounts& table);

// 2^(-i/8) as a fraction of 2^32, rounded down.
uint64_t EighthPower(uint32_t i);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_MODEL_H_
