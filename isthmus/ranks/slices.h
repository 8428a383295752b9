// The changes of slices, from the rank that holds them to the one that owns their chunks
// (docs/ranks.md, "Slices as a part").
#ifndef ISTHMUS_RANKS_SLICES_H_
#define ISTHMUS_RANKS_SLICES_H_

#include <functional>
#include <vector>

#include "isthmus/base/thread_pool.h"
#include "isthmus/codec/chunk_encode.h"
#include "isthmus/ranks/assignment.h"

namespace isthmus::ranks {

// Copies a slice's bytes, all of them, to a place of that size; called from the pool's threads.
using CopySlice = std::function<void(const Slice& slice, MutableByteSpan to)>;

// The part with the changes of the slices, ascending, between two versions of them.
ByteVector EncodeSlices(const codec::ChunkLayout& layout, const std::vector<Slice>& slices,
                        const CopySlice& before, const CopySlice& after,
                        codec::EncodingPolicy policy, ThreadPool& pool);

// The slices' new bytes, from the owner's old ones and the part that `rank` sent. kCorrupt: the
// part is malformed, or does not lead where it says; as WrongBaselines: it begins at other bytes
// than the owner's.
std::vector<ByteVector> DecodeSlices(const codec::ChunkLayout& layout,
                                     const std::vector<Slice>& slices, const CopySlice& before,
                                     ByteSpan bytes, uint32_t rank);

}  // namespace isthmus::ranks

#endif  // ISTHMUS_RANKS_SLICES_H_
