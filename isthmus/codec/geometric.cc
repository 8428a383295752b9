// Gap tables spelled out, geometric ones by integer arithmetic that every decoder repeats exactly
// (docs/patch-format.md, 3.4).
#include <algorithm>
#include <array>

#include "isthmus/codec/model.h"

namespace isthmus::codec {
namespace {

constexpr uint64_t kOne = uint64_t{1} << 32;

uint64_t Product(uint64_t a, uint64_t b) {  // of two fractions, rounded down
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 32);
}

// Q_b: the share of gaps that reach bucket b.
class Reach {
 public:
  explicit Reach(uint8_t a) {
    squares_[0] = kOne - EighthPower(a);
    for (size_t j = 1; j < squares_.size(); ++j) {
      squares_[j] = Product(squares_[j - 1], squares_[j - 1]);
    }
  }
  uint64_t Of(uint32_t bucket) const {
    if (bucket == 0) return kOne;
    const uint32_t h = bucket / 2;
    if (bucket == 1 || bucket % 2 == 0) return squares_[h];
    return Product(squares_[h], squares_[h - 1]);
  }

 private:
  std::array<uint64_t, kMaxGapBuckets / 2 + 1> squares_{};
};

struct Share {
  uint32_t symbol;
  uint64_t share;
};

}  // namespace

uint64_t EighthPower(uint32_t i) {
  constexpr std::array<uint64_t, 8> kPowers = {4294967296, 3938502376, 3611622603, 3311872529,
                                               3037000500, 2784941738, 2553802834, 2341847524};
  return kPowers[i % 8] >> (i / 8);
}

bool ExpandGapTable(const GapTable& table, GapCounts* out) {
  *out = {};
  if (table.kind == GapKind::kExplicit) {
    std::ranges::copy(table.buckets, out->counts.begin());
    out->counts[kGapEnd] = table.end;
    return true;
  }
  const auto end = std::max<uint64_t>(1, (kTansStates * EighthPower(table.e)) >> 32);
  out->counts[kGapEnd] = static_cast<uint16_t>(end);
  if (end == kTansStates) return true;

  const Reach reach(table.a);
  uint32_t buckets = 1;
  while (buckets < kMaxGapBuckets && reach.Of(buckets) > (kOne >> 8)) ++buckets;
  std::array<Share, kMaxGapBuckets + 1> shares{};
  for (uint32_t b = 0; b < buckets; ++b) shares[b] = {b, reach.Of(b) - reach.Of(b + 1)};
  shares[buckets] = {kGapSkip, reach.Of(buckets)};
  out->skip_length = BucketStart<kGapM>(buckets);

  int64_t lacking = static_cast<int64_t>(kTansStates - end);
  const uint64_t total = kTansStates - end;
  size_t largest = 0;
  for (size_t i = 0; i <= buckets; ++i) {
    const uint64_t count = std::max<uint64_t>(1, (shares[i].share * total + kOne / 2) >> 32);
    out->counts[shares[i].symbol] = static_cast<uint16_t>(count);
    lacking -= static_cast<int64_t>(count);
    if (shares[i].share > shares[largest].share) largest = i;
  }
  const int64_t adjusted = out->counts[shares[largest].symbol] + lacking;
  if (adjusted < 1) return false;
  out->counts[shares[largest].symbol] = static_cast<uint16_t>(adjusted);
  return true;
}

}  // namespace isthmus::codec
