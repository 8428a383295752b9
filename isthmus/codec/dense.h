// The encodings for dense change: byte planes through zstd (docs/patch-format.md, 3.1 and 3.2).
// Encoders are declared in chunk.h.
#ifndef ISTHMUS_CODEC_DENSE_H_
#define ISTHMUS_CODEC_DENSE_H_

#include "isthmus/base/bytes.h"

namespace isthmus::codec {

// As ApplyChunk.
void ApplyRaw(ByteSpan payload, size_t unit_bytes, MutableByteSpan chunk);
void ApplyXor(ByteSpan payload, size_t unit_bytes, MutableByteSpan chunk);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_DENSE_H_
