// The encoding for sparse change: gaps and steps, entropy coded (docs/patch-format.md, 3.3).
// The encoder is declared in chunk.h.
#ifndef ISTHMUS_CODEC_DIRECT_H_
#define ISTHMUS_CODEC_DIRECT_H_

#include "isthmus/base/bytes.h"

namespace isthmus::codec {

// As ApplyChunk.
void ApplyDirect(ByteSpan payload, size_t unit_bytes, MutableByteSpan chunk);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_DIRECT_H_
