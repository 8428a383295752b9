// What the reader and the builder of parts share: the header's fixed places.
#ifndef ISTHMUS_CODEC_PART_LAYOUT_H_
#define ISTHMUS_CODEC_PART_LAYOUT_H_

#include "isthmus/base/digest.h"

namespace isthmus::codec {

inline constexpr uint32_t kVersionsStated = 1;  // flag bit 0
inline constexpr size_t kDigestOffset = 112;

// Bytes of the checks.
constexpr uint64_t ChecksBytes(uint64_t tensor_count, uint64_t chunk_count) {
  return 8 * tensor_count + 4 * chunk_count;
}

// The header's digest covers what lies before it, the tables frame and the checks behind that.
inline Xxh128Digest HeaderDigest(ByteSpan before_digest, ByteSpan tables_frame, ByteSpan checks) {
  Xxh128Stream stream;
  stream.Update(before_digest);
  stream.Update(tables_frame);
  stream.Update(checks);
  return stream.Finish();
}

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_PART_LAYOUT_H_
