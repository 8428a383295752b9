// A payload of one encoding against a chunk's bytes: what the targets raw, xor, direct and context
// do. seeds.py writes inputs of the same form.
#ifndef ISTHMUS_FUZZ_CHUNK_PAYLOAD_H_
#define ISTHMUS_FUZZ_CHUNK_PAYLOAD_H_

#include "isthmus/codec/chunk.h"

namespace isthmus::fuzz {

// The input: u8 dtype, u8 model (0: it follows, else one of SparseModels), u16 units (0: 2^16)
// and u8 how far to shift them (over 4: not); u8 SIMD target, u16 size of the pattern; the model;
// the payload; at the end of the input the pattern, which the chunk's old bytes repeat.
int FuzzPayload(codec::Encoding encoding, const uint8_t* data, size_t size);

}  // namespace isthmus::fuzz

#endif  // ISTHMUS_FUZZ_CHUNK_PAYLOAD_H_
