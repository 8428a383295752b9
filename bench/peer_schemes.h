// How other programs store a sparse change of 16-bit weights, to compare sizes with. Not a format:
// no headers, no digests, nothing that finds a tensor; so their real files are larger than this.
#ifndef BENCH_PEER_SCHEMES_H_
#define BENCH_PEER_SCHEMES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "isthmus/base/bytes.h"

namespace isthmus::bench {

// The same tensor of 2-byte units before and after; both spans have the same, even size.
struct TensorPair {
  ByteSpan before;
  ByteSpan after;
};

enum class PeerScheme {
  kDenseXor,          // before XOR after, unit by unit
  kIndexAndValue,     // u32 index in the tensor | u16 new value
  kShortGapAndValue,  // u16 gap | u16 new value
};

std::string_view PeerName(PeerScheme scheme);

// What a scheme hands to the compressor: each stream holds the data of all tensors, one after
// another, as little-endian integers. A gap counts the unchanged units since the change before it
// in the tensor (or its first unit); one of kMaxShortGap or more is stored as that many
// kMaxShortGap first, each of which skips so many units and has no value, then the rest.
inline constexpr uint32_t kMaxShortGap = 0xFFFF;
std::vector<ByteVector> PeerStreams(PeerScheme scheme, const std::vector<TensorPair>& tensors);

// The bytes of all streams, each compressed by itself with zstd, level 1.
uint64_t PeerBytes(PeerScheme scheme, const std::vector<TensorPair>& tensors);

}  // namespace isthmus::bench

#endif  // BENCH_PEER_SCHEMES_H_
