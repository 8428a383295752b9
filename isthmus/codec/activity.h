// The activity bitmap: stretches of a chunk in which nothing changes leave the counting of ranks
// (docs/patch-format.md, 3.3). For embeddings and experts with untouched rows.
#ifndef ISTHMUS_CODEC_ACTIVITY_H_
#define ISTHMUS_CODEC_ACTIVITY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "isthmus/codec/bit_stream.h"

namespace isthmus::codec {

// Granules have 2^9 to 2^12 elements.
inline constexpr uint32_t kMinGranuleBits = 9;
inline constexpr uint32_t kMaxGranuleBits = 12;

struct Activity {
  uint32_t granule_bits = kMinGranuleBits;
  uint32_t rice_bits = 0;        // k
  std::vector<uint32_t> active;  // granules, ascending

  // A bit for each 64 elements, the lowest first: 1 if active.
  std::vector<uint64_t> WordBits(uint64_t elements) const;
};

// The bitmap that saves most, if one saves anything. `positions` ascend.
std::optional<Activity> ChooseActivity(std::span<const uint32_t> positions, uint64_t elements);

void PrependActivity(const Activity& activity, uint64_t elements, PrependBits* out);
// kCorrupt unless it is well-formed; leaves the cursor behind it.
Activity ReadActivity(BitCursor* in, uint64_t elements);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_ACTIVITY_H_
