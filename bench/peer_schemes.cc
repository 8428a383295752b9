#include "bench/peer_schemes.h"

#include "isthmus/base/error.h"
#include "isthmus/codec/frame.h"

namespace isthmus::bench {
namespace {

constexpr size_t kUnitBytes = 2;

template <typename T>
void Append(T value, ByteVector* stream) {
  const size_t at = stream->size();
  stream->resize(at + sizeof value);
  StoreLe(stream->data() + at, value);
}

uint16_t UnitAt(ByteSpan tensor, size_t index) {
  return LoadLe<uint16_t>(tensor.data() + index * kUnitBytes);
}

// Calls take(index, new value) for each unit that changed.
template <typename Take>
void ForEachChange(const TensorPair& tensor, const Take& take) {
  for (size_t i = 0; i < tensor.after.size() / kUnitBytes; ++i) {
    const uint16_t value = UnitAt(tensor.after, i);
    if (UnitAt(tensor.before, i) != value) take(i, value);
  }
}

void AppendDenseXor(const TensorPair& tensor, std::vector<ByteVector>* streams) {
  for (size_t i = 0; i < tensor.after.size(); ++i) {
    streams->front().push_back(tensor.before[i] ^ tensor.after[i]);
  }
}

void AppendIndices(const TensorPair& tensor, std::vector<ByteVector>* streams) {
  ForEachChange(tensor, [&](size_t index, uint16_t value) {
    Append(static_cast<uint32_t>(index), &(*streams)[0]);
    Append(value, &(*streams)[1]);
  });
}

void AppendShortGaps(const TensorPair& tensor, std::vector<ByteVector>* streams) {
  size_t expected = 0;
  ForEachChange(tensor, [&](size_t index, uint16_t value) {
    size_t gap = index - expected;
    for (; gap >= kMaxShortGap; gap -= kMaxShortGap) {
      Append(static_cast<uint16_t>(kMaxShortGap), &(*streams)[0]);
    }
    Append(static_cast<uint16_t>(gap), &(*streams)[0]);
    Append(value, &(*streams)[1]);
    expected = index + 1;
  });
}

}  // namespace

std::string_view PeerName(PeerScheme scheme) {
  switch (scheme) {
    case PeerScheme::kDenseXor:
      return "dense XOR + zstd 1";
    case PeerScheme::kIndexAndValue:
      return "u32 index + value + zstd 1";
    case PeerScheme::kShortGapAndValue:
      return "u16 gap + value + zstd 1";
  }
  return "";
}

std::vector<ByteVector> PeerStreams(PeerScheme scheme, const std::vector<TensorPair>& tensors) {
  std::vector<ByteVector> streams(scheme == PeerScheme::kDenseXor ? 1 : 2);
  for (const TensorPair& tensor : tensors) {
    switch (scheme) {
      case PeerScheme::kDenseXor:
        AppendDenseXor(tensor, &streams);
        break;
      case PeerScheme::kIndexAndValue:
        AppendIndices(tensor, &streams);
        break;
      case PeerScheme::kShortGapAndValue:
        AppendShortGaps(tensor, &streams);
        break;
    }
  }
  return streams;
}

uint64_t PeerBytes(PeerScheme scheme, const std::vector<TensorPair>& tensors) {
  uint64_t bytes = 0;
  for (const ByteVector& stream : PeerStreams(scheme, tensors)) {
    ByteVector frame;
    codec::AppendFrame(stream, &frame);
    bytes += frame.size();
  }
  return bytes;
}

}  // namespace isthmus::bench
