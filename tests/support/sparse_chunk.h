// Chunks that tests code sparsely, with everything that the coder wants found by plain loops.
#ifndef ISTHMUS_TESTS_SUPPORT_SPARSE_CHUNK_H_
#define ISTHMUS_TESTS_SUPPORT_SPARSE_CHUNK_H_

#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "isthmus/codec/model_builder.h"
#include "isthmus/codec/sparse.h"

namespace isthmus::testing {

// What is coded: the dtype and whether its bytes are 4-bit codes.
struct ElementKind {
  tensor::Dtype dtype;
  codec::Elements elements = codec::Elements::kUnits;

  uint32_t bits() const { return codec::ElementBits(elements, dtype); }
  // Bytes of so many elements; `count` is even for 4-bit codes.
  size_t BytesOf(size_t count) const { return count * bits() / 8; }
};

// One kind for every width of elements: 4, 8, 16 and 32 bits.
inline constexpr ElementKind kEveryWidth[] = {{tensor::Dtype::kF4, codec::Elements::kCodes4},
                                              {tensor::Dtype::kF8E4M3},
                                              {tensor::Dtype::kBf16},
                                              {tensor::Dtype::kF32}};

inline uint32_t ElementAt(ByteSpan units, uint32_t bits, size_t i) {
  switch (bits) {
    case 4:
      return std::to_integer<uint32_t>(units[i / 2]) >> (i % 2 * 4) & 0xF;
    case 8:
      return std::to_integer<uint32_t>(units[i]);
    case 16:
      return LoadLe<uint16_t>(units.data() + 2 * i);
    default:
      return LoadLe<uint32_t>(units.data() + 4 * i);
  }
}

inline void SetElement(MutableByteSpan units, uint32_t bits, size_t i, uint32_t value) {
  switch (bits) {
    case 4: {
      const auto kept = std::to_integer<uint32_t>(units[i / 2]) & (i % 2 == 0 ? 0xF0U : 0x0FU);
      units[i / 2] = static_cast<std::byte>(kept | (value & 0xF) << (i % 2 * 4));
      break;
    }
    case 8:
      units[i] = static_cast<std::byte>(value);
      break;
    case 16:
      StoreLe(units.data() + 2 * i, static_cast<uint16_t>(value));
      break;
    default:
      StoreLe(units.data() + 4 * i, value);
  }
}

inline codec::PackedStep StepOf(uint32_t bits, uint32_t from, uint32_t to) {
  switch (bits) {
    case 4:
      return codec::StepBetween<4>(static_cast<uint8_t>(from), static_cast<uint8_t>(to));
    case 8:
      return codec::StepBetween<8>(static_cast<uint8_t>(from), static_cast<uint8_t>(to));
    case 16:
      return codec::StepBetween<16>(static_cast<uint16_t>(from), static_cast<uint16_t>(to));
    default:
      return codec::StepBetween<32>(from, to);
  }
}

struct SparseChunk {
  ElementKind kind;
  ByteVector before;
  ByteVector after;

  size_t count() const { return before.size() * 8 / kind.bits(); }
  std::vector<uint32_t> Positions() const {
    std::vector<uint32_t> positions;
    for (size_t i = 0; i < count(); ++i) {
      if (ElementAt(before, kind.bits(), i) == ElementAt(after, kind.bits(), i)) continue;
      positions.push_back(static_cast<uint32_t>(i));
    }
    return positions;
  }
};

// Random bits, of which a share of the elements becomes other random bits or takes a step of 1; one
// element at least.
inline SparseChunk RandomChunk(const ElementKind& kind, size_t count, double share,
                               std::mt19937* random) {
  const uint32_t bits = kind.bits();
  SparseChunk chunk = {kind, ByteVector(kind.BytesOf(count)), {}};
  for (std::byte& byte : chunk.before) byte = static_cast<std::byte>((*random)());
  chunk.after = chunk.before;
  const auto limit = static_cast<uint32_t>(share * std::mt19937::max());
  const auto change = [&](size_t i) {
    const uint32_t old_bits = ElementAt(chunk.before, bits, i);
    const auto bits_drawn = static_cast<uint32_t>((*random)());
    const uint32_t new_bits = (*random)() % 2 == 0 ? bits_drawn : old_bits ^ 1;
    SetElement(chunk.after, bits, i, new_bits);
  };
  for (size_t i = 0; i < count; ++i) {
    if ((*random)() <= limit) change(i);
  }
  const size_t one = (*random)() % count;
  SetElement(chunk.after, bits, one, ElementAt(chunk.before, bits, one) ^ 1);
  return chunk;
}

// Bytes of the chunk as the coder takes them: 4-bit codes one to a byte.
inline ByteVector ElementsOf(const ElementKind& kind, const ByteVector& units) {
  if (kind.bits() != 4) return units;
  ByteVector codes(2 * units.size());
  codec::UnpackCodes(units, codes);
  return codes;
}

// `before` and `after`: the elements of either side, anywhere in memory.
inline codec::SparseEvents EventsOf(const SparseChunk& chunk, ByteSpan before, ByteSpan after,
                                    const std::vector<uint8_t>& thresholds,
                                    std::optional<codec::Activity> activity = std::nullopt) {
  const codec::ClassRule rule(thresholds, codec::KeyRuleOf(chunk.kind.elements, chunk.kind.dtype));
  return codec::OrderChanges(before, after, chunk.kind.bits(), rule, std::move(activity),
                             chunk.Positions());
}
inline codec::SparseEvents EventsOf(const SparseChunk& chunk,
                                    const std::vector<uint8_t>& thresholds,
                                    std::optional<codec::Activity> activity = std::nullopt) {
  return EventsOf(chunk, ElementsOf(chunk.kind, chunk.before), ElementsOf(chunk.kind, chunk.after),
                  thresholds, std::move(activity));
}

struct SparsePayload {
  codec::Model model;
  ByteVector payload;
};

// With a model made for this chunk alone.
inline SparsePayload EncodeChunk(const SparseChunk& chunk, const std::vector<uint8_t>& thresholds,
                                 std::optional<codec::Activity> activity = std::nullopt) {
  const codec::SparseEvents events = EventsOf(chunk, thresholds, std::move(activity));
  codec::ModelBuilder builder(chunk.kind.elements, thresholds);
  builder.Add(events);
  SparsePayload encoded = {builder.Build(), {}};
  codec::EncodeSparse(events, encoded.model, chunk.count(), &encoded.payload);
  return encoded;
}

// The granules that hold the chunk's changes, whether a bitmap of them saves anything or not.
inline codec::Activity ActivityOf(const SparseChunk& chunk, uint32_t granule_bits,
                                  uint32_t rice_bits) {
  codec::Activity activity = {granule_bits, rice_bits, {}};
  for (const uint32_t position : chunk.Positions()) {
    const uint32_t granule = position >> granule_bits;
    if (activity.active.empty() || activity.active.back() != granule) {
      activity.active.push_back(granule);
    }
  }
  return activity;
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_SPARSE_CHUNK_H_
