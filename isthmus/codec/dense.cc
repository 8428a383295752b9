#include "isthmus/codec/dense.h"

#include "isthmus/codec/chunk.h"
#include "isthmus/codec/frame.h"

namespace isthmus::codec {
namespace {

// A thread's buffer for the planes of one chunk: at most 2^20 units of 4 bytes.
ByteVector& PlaneBuffer(size_t bytes) {
  thread_local ByteVector buffer;
  buffer.resize(bytes);
  return buffer;
}

template <size_t kUnitBytes>
void Split(const std::byte* units, size_t count, std::byte* planes) {
  for (size_t i = 0; i < count; ++i) {
    for (size_t p = 0; p < kUnitBytes; ++p) planes[p * count + i] = units[i * kUnitBytes + p];
  }
}

// XOR into `units`, or overwrite them.
template <size_t kUnitBytes, bool kXor>
void Merge(const std::byte* planes, size_t count, std::byte* units) {
  for (size_t i = 0; i < count; ++i) {
    for (size_t p = 0; p < kUnitBytes; ++p) {
      std::byte& unit = units[i * kUnitBytes + p];
      unit = kXor ? unit ^ planes[p * count + i] : planes[p * count + i];
    }
  }
}

void SplitUnits(ByteSpan units, size_t unit_bytes, ByteVector* planes) {
  const size_t count = units.size() / unit_bytes;
  if (unit_bytes == 1) return Split<1>(units.data(), count, planes->data());
  if (unit_bytes == 2) return Split<2>(units.data(), count, planes->data());
  Split<4>(units.data(), count, planes->data());
}

template <bool kXor>
void ApplyPlanes(ByteSpan payload, size_t unit_bytes, MutableByteSpan chunk) {
  ByteVector& planes = PlaneBuffer(chunk.size());
  ReadFrame(payload, planes);
  const size_t count = chunk.size() / unit_bytes;
  if (unit_bytes == 1) return Merge<1, kXor>(planes.data(), count, chunk.data());
  if (unit_bytes == 2) return Merge<2, kXor>(planes.data(), count, chunk.data());
  Merge<4, kXor>(planes.data(), count, chunk.data());
}

}  // namespace

void EncodeRaw(ByteSpan after, size_t unit_bytes, ByteVector* payload) {
  ByteVector& planes = PlaneBuffer(after.size());
  SplitUnits(after, unit_bytes, &planes);
  AppendFrame(planes, payload);
}

void EncodeXor(ByteSpan before, ByteSpan after, size_t unit_bytes, ByteVector* payload) {
  thread_local ByteVector difference;
  difference.resize(after.size());
  for (size_t i = 0; i < after.size(); ++i) difference[i] = before[i] ^ after[i];
  EncodeRaw(difference, unit_bytes, payload);
}

void ApplyRaw(ByteSpan payload, size_t unit_bytes, MutableByteSpan chunk) {
  ApplyPlanes<false>(payload, unit_bytes, chunk);
}

void ApplyXor(ByteSpan payload, size_t unit_bytes, MutableByteSpan chunk) {
  ApplyPlanes<true>(payload, unit_bytes, chunk);
}

}  // namespace isthmus::codec
