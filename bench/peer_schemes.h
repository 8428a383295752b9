// How other programs store a sparse change of weights, to compare sizes with. Not a format: no
// headers, no digests, nothing that finds a tensor; so their real files are larger than this.
#ifndef BENCH_PEER_SCHEMES_H_
#define BENCH_PEER_SCHEMES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "isthmus/base/bytes.h"
#include "isthmus/tensor/safetensors.h"

namespace isthmus::bench {

// The same tensor before and after, in units of its dtype (tensor::UnitBytes).
struct TensorPair {
  ByteSpan before;
  ByteSpan after;
  tensor::Dtype dtype = tensor::Dtype::kBf16;
  uint64_t columns = 1;  // units in a row of the first dimension

  // Of a tensor of this shape. One of one dimension is a column.
  static TensorPair Of(const tensor::TensorInfo& info, ByteSpan before, ByteSpan after);
  size_t unit_bytes() const { return tensor::UnitBytes(dtype); }
};

enum class PeerScheme {
  kDenseXor,             // before XOR after, unit by unit (slime, Miles, SkyRL, Stitch)
  kIndexAndValue,        // u32 index in the tensor | new value (slime's overwrite, TRL, verl)
  kShortGapAndValue,     // u16 gap | new value (PULSE's patch files)
  kRowColumnAndValue,    // row gap | column | new value (grail, which is PULSE: in production)
  kRowColumnDifference,  // row gap | column | new value - old value in BF16 (PULSE's benchmark)
};

std::string_view PeerName(PeerScheme scheme);

// Whether the scheme is defined for the dtype: differences are for BF16 only.
bool PeerTakes(PeerScheme scheme, tensor::Dtype dtype);

// What a scheme hands to the compressor: each stream holds the data of all tensors, one after
// another, as little-endian integers.
// - A short gap counts the unchanged units since the change before it in the tensor (or its first
//   unit); one of kMaxShortGap or more is stored as that many kMaxShortGap first, each of which
//   skips so many units and has no value, then the rest.
// - A row gap counts rows since the row of the change before it (or row 0). A column is absolute if
//   the row gap is not 0 or it is the tensor's first change, else the distance from the column
//   before. Each tensor has row gaps of 8, 16 or 32 bits and columns of 16 or 32, the smallest that
//   hold all of them ("coo_downscaled").
inline constexpr uint32_t kMaxShortGap = 0xFFFF;
std::vector<ByteVector> PeerStreams(PeerScheme scheme, const std::vector<TensorPair>& tensors);

// The bytes of all streams, each compressed by itself with zstd, level 1.
uint64_t PeerBytes(PeerScheme scheme, const std::vector<TensorPair>& tensors);

}  // namespace isthmus::bench

#endif  // BENCH_PEER_SCHEMES_H_
