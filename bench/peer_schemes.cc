#include "bench/peer_schemes.h"

#include <algorithm>
#include <bit>

#include "isthmus/base/error.h"
#include "isthmus/codec/frame.h"

namespace isthmus::bench {
namespace {

void Append(uint64_t value, size_t bytes, ByteVector* stream) {
  const size_t at = stream->size();
  stream->resize(at + sizeof value);
  StoreLe(stream->data() + at, value);
  stream->resize(at + bytes);
}

uint32_t UnitAt(ByteSpan tensor, size_t unit_bytes, size_t index) {
  const std::byte* at = tensor.data() + index * unit_bytes;
  if (unit_bytes == 1) return LoadLe<uint8_t>(at);
  if (unit_bytes == 2) return LoadLe<uint16_t>(at);
  return LoadLe<uint32_t>(at);
}

struct Change {
  uint64_t index;
  uint32_t before;
  uint32_t after;
};

std::vector<Change> ChangesOf(const TensorPair& tensor) {
  std::vector<Change> changes;
  const size_t unit_bytes = tensor.unit_bytes();
  for (size_t i = 0; i < tensor.after.size() / unit_bytes; ++i) {
    const uint32_t before = UnitAt(tensor.before, unit_bytes, i);
    const uint32_t after = UnitAt(tensor.after, unit_bytes, i);
    if (before != after) changes.push_back({i, before, after});
  }
  return changes;
}

void AppendDenseXor(const TensorPair& tensor, std::vector<ByteVector>* streams) {
  ByteVector& stream = streams->front();
  const size_t at = stream.size();
  stream.resize(at + tensor.after.size());
  std::ranges::transform(tensor.before, tensor.after,
                         stream.begin() + static_cast<std::ptrdiff_t>(at),
                         [](std::byte a, std::byte b) { return a ^ b; });
}

void AppendIndices(const TensorPair& tensor, std::vector<ByteVector>* streams) {
  for (const Change& change : ChangesOf(tensor)) {
    Append(change.index, sizeof(uint32_t), &(*streams)[0]);
    Append(change.after, tensor.unit_bytes(), &(*streams)[1]);
  }
}

void AppendShortGaps(const TensorPair& tensor, std::vector<ByteVector>* streams) {
  uint64_t expected = 0;
  for (const Change& change : ChangesOf(tensor)) {
    uint64_t gap = change.index - expected;
    for (; gap >= kMaxShortGap; gap -= kMaxShortGap) {
      Append(kMaxShortGap, sizeof(uint16_t), &(*streams)[0]);
    }
    Append(gap, sizeof(uint16_t), &(*streams)[0]);
    Append(change.after, tensor.unit_bytes(), &(*streams)[1]);
    expected = change.index + 1;
  }
}

// The smallest of the allowed widths (ascending) that holds all numbers.
size_t WidthFor(const std::vector<uint64_t>& numbers, const std::vector<size_t>& widths) {
  const uint64_t most = numbers.empty() ? 0 : std::ranges::max(numbers);
  for (const size_t width : widths) {
    if (most >> (8 * width) == 0) return width;
  }
  Throw(ErrorCode::kInternal, "row or column {}: it does not fit {} bytes", most, widths.back());
}

void AppendRowsAndColumns(const std::vector<Change>& changes, uint64_t columns,
                          std::vector<ByteVector>* streams) {
  std::vector<uint64_t> row_gaps;
  std::vector<uint64_t> column_numbers;
  uint64_t row = 0;
  uint64_t column = 0;
  for (const Change& change : changes) {
    const uint64_t gap = change.index / columns - row;
    const uint64_t next = change.index % columns;
    column_numbers.push_back(row_gaps.empty() || gap != 0 ? next : next - column);
    row_gaps.push_back(gap);
    row += gap;
    column = next;
  }
  const size_t row_width = WidthFor(row_gaps, {1, 2, 4});
  const size_t column_width = WidthFor(column_numbers, {2, 4});
  for (const uint64_t gap : row_gaps) Append(gap, row_width, &(*streams)[0]);
  for (const uint64_t number : column_numbers) Append(number, column_width, &(*streams)[1]);
}

float FromBf16(uint32_t bits) { return std::bit_cast<float>(bits << 16); }

// To nearest even; finite.
uint32_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
}

void AppendRowColumn(const TensorPair& tensor, bool difference, std::vector<ByteVector>* streams) {
  const std::vector<Change> changes = ChangesOf(tensor);
  AppendRowsAndColumns(changes, tensor.columns, streams);
  for (const Change& change : changes) {
    const uint32_t value =
        difference ? ToBf16(FromBf16(change.after) - FromBf16(change.before)) : change.after;
    Append(value, tensor.unit_bytes(), &(*streams)[2]);
  }
}

void AppendTensor(PeerScheme scheme, const TensorPair& tensor, std::vector<ByteVector>* streams) {
  switch (scheme) {
    case PeerScheme::kDenseXor:
      return AppendDenseXor(tensor, streams);
    case PeerScheme::kIndexAndValue:
      return AppendIndices(tensor, streams);
    case PeerScheme::kShortGapAndValue:
      return AppendShortGaps(tensor, streams);
    case PeerScheme::kRowColumnAndValue:
      return AppendRowColumn(tensor, false, streams);
    case PeerScheme::kRowColumnDifference:
      return AppendRowColumn(tensor, true, streams);
  }
}

size_t StreamCount(PeerScheme scheme) {
  switch (scheme) {
    case PeerScheme::kDenseXor:
      return 1;
    case PeerScheme::kIndexAndValue:
    case PeerScheme::kShortGapAndValue:
      return 2;
    case PeerScheme::kRowColumnAndValue:
    case PeerScheme::kRowColumnDifference:
      return 3;
  }
  return 0;
}

}  // namespace

TensorPair TensorPair::Of(const tensor::TensorInfo& info, ByteSpan before, ByteSpan after) {
  TensorPair pair = {before, after, info.dtype, 1};
  const uint64_t units = after.size() / pair.unit_bytes();
  if (info.shape.size() > 1 && units > 0) pair.columns = units / info.shape.front();
  return pair;
}

std::string_view PeerName(PeerScheme scheme) {
  switch (scheme) {
    case PeerScheme::kDenseXor:
      return "dense XOR + zstd 1";
    case PeerScheme::kIndexAndValue:
      return "u32 index + value + zstd 1";
    case PeerScheme::kShortGapAndValue:
      return "u16 gap + value + zstd 1";
    case PeerScheme::kRowColumnAndValue:
      return "row gap + column + value + zstd 1";
    case PeerScheme::kRowColumnDifference:
      return "row gap + column + difference + zstd 1";
  }
  return "";
}

bool PeerTakes(PeerScheme scheme, tensor::Dtype dtype) {
  return scheme != PeerScheme::kRowColumnDifference || dtype == tensor::Dtype::kBf16;
}

std::vector<ByteVector> PeerStreams(PeerScheme scheme, const std::vector<TensorPair>& tensors) {
  std::vector<ByteVector> streams(StreamCount(scheme));
  for (const TensorPair& tensor : tensors) AppendTensor(scheme, tensor, &streams);
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
