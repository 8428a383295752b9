// Single zstd frames with a declared content size: the only way the format uses zstd.
#ifndef ISTHMUS_CODEC_FRAME_H_
#define ISTHMUS_CODEC_FRAME_H_

#include "isthmus/base/bytes.h"

namespace isthmus::codec {

// For payloads: byte planes of weights have skewed counts and few matches, and higher levels gain
// under 1 % on them.
inline constexpr int kDefaultLevel = 1;

// Appends one frame that holds `content`. Thread-safe (a context per thread).
void AppendFrame(ByteSpan content, ByteVector* out, int level = kDefaultLevel);

// Fills `content` from a frame that must be exactly `frame` and declare exactly that size. Nothing
// is allocated from sizes that the frame claims. Throws kCorrupt.
void ReadFrame(ByteSpan frame, MutableByteSpan content);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_FRAME_H_
