// What the reader and the builder of parts share: the header's fixed places.
#ifndef ISTHMUS_CODEC_PART_LAYOUT_H_
#define ISTHMUS_CODEC_PART_LAYOUT_H_

#include "isthmus/base/digest.h"

namespace isthmus::codec {

inline constexpr uint32_t kVersionsStated = 1;  // flag bit 0
inline constexpr size_t kDigestOffset = 112;

// The header's digest covers what lies before it and the tables frame.
inline Xxh128Digest HeaderDigest(ByteSpan before_digest, ByteSpan tables_frame) {
  Xxh128Stream stream;
  stream.Update(before_digest);
  stream.Update(tables_frame);
  return stream.Finish();
}

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_PART_LAYOUT_H_
