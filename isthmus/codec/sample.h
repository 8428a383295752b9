// A look at some of a chunk before it is scanned: enough to choose classes by.
#ifndef ISTHMUS_CODEC_SAMPLE_H_
#define ISTHMUS_CODEC_SAMPLE_H_

#include <cstdint>

#include "isthmus/base/bytes.h"
#include "isthmus/codec/element.h"
#include "isthmus/codec/key_stats.h"

namespace isthmus::codec {

struct ChunkSample {
  KeySample units;
  KeySample codes;           // the same bytes as 4-bit codes; only where they may be such
  uint64_t changed = 0;      // units among those compared
  uint64_t single_code = 0;  // of these, changed in one 4-bit code only
};

// Compares every `stride`-th block of kBlockElements units of the chunk. Thread-safe.
ChunkSample SampleChunk(tensor::Dtype dtype, ByteSpan before, ByteSpan after, size_t stride);

// How the chunks that were sampled are coded best: F4 as codes; integers as well if they may be
// packed codes (compressed-tensors packs eight into an I32, MXFP4 checkpoints two into a U8) and
// nearly every change is one of a single code.
Elements ChooseElements(tensor::Dtype dtype, uint64_t changed, uint64_t single_code);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_SAMPLE_H_
