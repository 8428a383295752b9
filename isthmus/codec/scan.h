// Finding the units that differ, at the speed of memory.
#ifndef ISTHMUS_CODEC_SCAN_H_
#define ISTHMUS_CODEC_SCAN_H_

#include <cstddef>
#include <cstdint>

#include "isthmus/base/bytes.h"

namespace isthmus::codec {

// Writes the indices of the units (of 1, 2 or 4 bytes) that differ, rising, each plus
// `first_index`, and returns how many there are. `before` and `after` have the same size, a
// multiple of unit_bytes; `positions` has room for all units of it, plus kScanSlack.
// Vectorised with run-time dispatch (Highway): every target gives the same result.
size_t ScanChanged(ByteSpan before, ByteSpan after, size_t unit_bytes, uint32_t first_index,
                   uint32_t* positions);

// The scan may write this many entries behind the last one that it returns.
inline constexpr size_t kScanSlack = 64;

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_SCAN_H_
