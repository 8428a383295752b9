#include "isthmus/codec/activity.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "isthmus/base/error.h"

namespace isthmus::codec {
namespace {

constexpr uint32_t kMaxRiceBits = 15;

uint64_t GranuleCount(uint32_t granule_bits, uint64_t elements) {
  return (elements + (uint64_t{1} << granule_bits) - 1) >> granule_bits;
}

// A bit for each granule, the lowest first.
using GranuleBits = std::vector<uint64_t>;

GranuleBits SmallestGranules(std::span<const uint32_t> positions, uint64_t granules) {
  GranuleBits bits((granules + 63) / 64);
  for (const uint32_t position : positions) {
    const uint32_t granule = position >> kMinGranuleBits;
    bits[granule / 64] |= uint64_t{1} << (granule % 64);
  }
  return bits;
}

// Of granules twice as large.
GranuleBits Halve(const GranuleBits& bits) {
  GranuleBits halved((bits.size() + 1) / 2);
  for (size_t granule = 0; granule < bits.size() * 64; ++granule) {
    const uint64_t bit = bits[granule / 64] >> (granule % 64) & 1;
    halved[granule / 128] |= bit << (granule / 2 % 64);
  }
  return halved;
}

std::vector<uint32_t> List(const GranuleBits& bits) {
  std::vector<uint32_t> granules;
  for (size_t w = 0; w < bits.size(); ++w) {
    for (uint64_t left = bits[w]; left != 0; left &= left - 1) {
      granules.push_back(static_cast<uint32_t>(w * 64) +
                         static_cast<uint32_t>(std::countr_zero(left)));
    }
  }
  return granules;
}

// Calls `use` for each number of the bitmap, the last one included.
template <typename Use>
void ForEachGap(const Activity& activity, uint64_t granules, const Use& use) {
  uint64_t next = 0;
  for (const uint32_t granule : activity.active) {
    use(static_cast<uint32_t>(granule - next));
    next = uint64_t{granule} + 1;
  }
  use(static_cast<uint32_t>(granules - next));
}

uint64_t RiceBits(const Activity& activity, uint64_t granules, uint32_t k) {
  uint64_t bits = 0;
  ForEachGap(activity, granules, [&](uint32_t gap) { bits += (gap >> k) + 1 + k; });
  return bits;
}

// Sets the best k; returns the bits of the bitmap with its parameters.
uint64_t ChooseRice(uint64_t granules, Activity* activity) {
  uint64_t best = UINT64_MAX;
  for (uint32_t k = 0; k <= kMaxRiceBits; ++k) {
    const uint64_t bits = RiceBits(*activity, granules, k);
    if (bits >= best) break;  // convex in k
    best = bits;
    activity->rice_bits = k;
  }
  return best + 6;
}

}  // namespace

std::vector<uint64_t> Activity::WordBits(uint64_t elements) const {
  const uint64_t words = (elements + 63) / 64;
  const uint64_t words_per_granule = (uint64_t{1} << granule_bits) / 64;
  std::vector<uint64_t> bits((words + 63) / 64);
  for (const uint32_t granule : active) {
    const uint64_t first = granule * words_per_granule;
    const uint64_t last = std::min(first + words_per_granule, words);
    for (uint64_t w = first; w < last; ++w) bits[w / 64] |= uint64_t{1} << (w % 64);
  }
  return bits;
}

std::optional<Activity> ChooseActivity(std::span<const uint32_t> positions, uint64_t elements) {
  std::optional<Activity> best;
  if (positions.empty()) return best;
  double best_saving = 0;
  GranuleBits bits = SmallestGranules(positions, GranuleCount(kMinGranuleBits, elements));
  for (uint32_t g = kMinGranuleBits; g <= kMaxGranuleBits; ++g) {
    if (g > kMinGranuleBits) bits = Halve(bits);
    Activity activity = {g, 0, List(bits)};
    const uint64_t granules = GranuleCount(g, elements);
    // Ranks shrink by the share of idle elements, so each gap by as many bits.
    const double active = static_cast<double>(activity.active.size());
    const double all = static_cast<double>(granules);
    const double shrink = std::log2(all / active) * static_cast<double>(positions.size());
    // No bitmap takes less than its entropy.
    const double idle_bits = active == all ? 0 : (all - active) * std::log2(all / (all - active));
    const double least = active * std::log2(all / active) + idle_bits;
    if (shrink - least <= best_saving) continue;
    const double saving = shrink - static_cast<double>(ChooseRice(granules, &activity));
    if (saving <= best_saving) continue;
    best_saving = saving;
    best = std::move(activity);
  }
  return best;
}

void PrependActivity(const Activity& activity, uint64_t elements, PrependBits* out) {
  std::vector<uint32_t> gaps;
  ForEachGap(activity, GranuleCount(activity.granule_bits, elements),
             [&gaps](uint32_t gap) { gaps.push_back(gap); });
  const uint32_t k = activity.rice_bits;
  for (size_t i = gaps.size(); i-- > 0;) {
    out->Put(gaps[i] & ((1u << k) - 1), k);
    out->Put(0, 1);
    for (uint32_t q = gaps[i] >> k; q > 0; --q) out->Put(1, 1);
  }
  out->Put(k, 4);
  out->Put(activity.granule_bits - kMinGranuleBits, 2);
}

Activity ReadActivity(BitCursor* in, uint64_t elements) {
  Activity activity;
  activity.granule_bits = kMinGranuleBits + in->Take(2);
  activity.rice_bits = in->Take(4);
  const uint64_t granules = GranuleCount(activity.granule_bits, elements);
  for (uint64_t next = 0;; ++next) {
    while (in->Take(1) == 1 && next <= granules) next += uint64_t{1} << activity.rice_bits;
    next += in->Take(activity.rice_bits);
    if (in->Past() || next > granules) {
      Throw(ErrorCode::kCorrupt, "read activity bitmap: it names granule {} of {}, or ends early",
            next, granules);
    }
    if (next == granules) return activity;
    activity.active.push_back(static_cast<uint32_t>(next));
  }
}

}  // namespace isthmus::codec
