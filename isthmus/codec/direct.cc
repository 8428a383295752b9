#include "isthmus/codec/direct.h"

#include <algorithm>
#include <cstring>

#include "isthmus/base/error.h"
#include "isthmus/codec/bit_stream.h"
#include "isthmus/codec/chunk.h"
#include "isthmus/codec/frame.h"

namespace isthmus::codec {
namespace {

// How a stream of symbols is stored (docs/patch-format.md, 3.3).
enum class SymbolMode : uint8_t { kStored = 0, kFrame = 1, kRepeated = 2 };

// A frame's header and Huffman table cost more than they save on fewer symbols.
constexpr size_t kMinFrameSymbols = 48;

struct Scratch {
  ByteVector gaps;
  ByteVector steps;
  ByteVector extra;
  ByteVector frame;
};

// A thread's buffers: at most 2^20 changes a chunk.
Scratch& ThreadScratch() {
  thread_local Scratch scratch;
  return scratch;
}

void WriteSymbols(const ByteVector& symbols, ByteVector* frame, ByteWriter* out) {
  const bool repeated = std::all_of(symbols.begin(), symbols.end(),
                                    [&](std::byte symbol) { return symbol == symbols.front(); });
  if (repeated && symbols.size() > 1) {
    out->U8(static_cast<uint8_t>(SymbolMode::kRepeated));
    out->Append(ByteSpan(symbols).first(1));
    return;
  }
  frame->clear();
  if (symbols.size() >= kMinFrameSymbols) AppendFrame(symbols, frame);
  if (frame->empty() || frame->size() >= symbols.size()) {
    out->U8(static_cast<uint8_t>(SymbolMode::kStored));
    out->Append(symbols);
    return;
  }
  out->U8(static_cast<uint8_t>(SymbolMode::kFrame));
  out->Varint(frame->size());
  out->Append(*frame);
}

// Fills `symbols`, whose size is the number of symbols expected.
void ReadSymbols(ByteReader* in, MutableByteSpan symbols) {
  const uint8_t mode = in->U8();
  if (mode == static_cast<uint8_t>(SymbolMode::kStored)) {
    const ByteSpan stored = in->Take(symbols.size());
    std::copy(stored.begin(), stored.end(), symbols.begin());
  } else if (mode == static_cast<uint8_t>(SymbolMode::kFrame)) {
    ReadFrame(in->Take(in->Varint()), symbols);
  } else if (mode == static_cast<uint8_t>(SymbolMode::kRepeated)) {
    std::fill(symbols.begin(), symbols.end(), std::byte{in->U8()});
  } else {
    Throw(ErrorCode::kCorrupt, "read symbols: mode {}, at most 2 allowed", mode);
  }
}

template <Unit T>
void Encode(const std::byte* before, const std::byte* after, std::span<const uint32_t> positions,
            ByteVector* payload) {
  Scratch& scratch = ThreadScratch();
  scratch.gaps.resize(positions.size());
  scratch.steps.resize(positions.size());
  scratch.extra.clear();
  BitWriter bits(&scratch.extra);
  uint32_t expected = 0;  // the position right after the last change
  for (size_t i = 0; i < positions.size(); ++i) {
    const uint32_t position = positions[i];
    const uint32_t gap = position - expected;
    expected = position + 1;
    const Step step = StepBetween(LoadLe<T>(before + position * sizeof(T)),
                                  LoadLe<T>(after + position * sizeof(T)));
    const Bucket gap_bucket = BucketOf(gap);
    const Bucket step_bucket = BucketOf(step.magnitude_minus_1);
    scratch.gaps[i] = static_cast<std::byte>(gap_bucket.symbol);
    scratch.steps[i] = static_cast<std::byte>(2 * step_bucket.symbol + step.negative);
    bits.Put(gap - BucketStart(gap_bucket.symbol), gap_bucket.extra_bits);
    bits.Put(step.magnitude_minus_1 - BucketStart(step_bucket.symbol), step_bucket.extra_bits);
  }
  bits.Finish();

  ByteWriter out;
  out.Varint(positions.size());
  WriteSymbols(scratch.gaps, &scratch.frame, &out);
  WriteSymbols(scratch.steps, &scratch.frame, &out);
  payload->insert(payload->end(), out.bytes().begin(), out.bytes().end());
  payload->insert(payload->end(), scratch.extra.begin(), scratch.extra.end());
}

// Sum of the extra bits of all symbols; kCorrupt for a symbol above `max_symbol`.
uint64_t CountExtraBits(ByteSpan symbols, uint32_t shift, uint32_t max_symbol) {
  std::array<uint32_t, 256> counts = {};
  for (const std::byte symbol : symbols) ++counts[std::to_integer<size_t>(symbol)];
  uint64_t bits = 0;
  for (uint32_t symbol = 0; symbol < counts.size(); ++symbol) {
    if (counts[symbol] == 0) continue;
    if (symbol > max_symbol) {
      Throw(ErrorCode::kCorrupt, "read symbols: symbol {}, at most {} allowed", symbol, max_symbol);
    }
    bits += uint64_t{counts[symbol]} * BucketExtraBits(symbol >> shift);
  }
  return bits;
}

void CheckExtra(ByteSpan extra, uint64_t bit_count) {
  if (extra.size() != (bit_count + 7) / 8) {
    Throw(ErrorCode::kCorrupt, "read extra bits: {} bytes, the symbols ask for {} bits",
          extra.size(), bit_count);
  }
  if (bit_count % 8 != 0 && std::to_integer<unsigned>(extra.back()) >> (bit_count % 8) != 0) {
    Throw(ErrorCode::kCorrupt, "read extra bits: the unused bits of the last byte are not zero");
  }
}

// What ended the inner loop before its last change.
enum class Fault { kNone, kPosition, kStep };

template <Unit T>
Fault ApplyChanges(ByteSpan gaps, ByteSpan steps, ByteSpan extra, MutableByteSpan chunk) {
  const uint64_t units = chunk.size() / sizeof(T);
  BitReader bits(extra);
  uint64_t position = 0;
  for (size_t i = 0; i < gaps.size(); ++i) {
    const auto gap_symbol = std::to_integer<uint32_t>(gaps[i]);
    const auto step_symbol = std::to_integer<uint32_t>(steps[i]);
    position += BucketStart(gap_symbol) + bits.Take(BucketExtraBits(gap_symbol));
    if (position >= units) return Fault::kPosition;
    const uint32_t bucket = step_symbol >> 1;
    const Step step = {BucketStart(bucket) + bits.Take(BucketExtraBits(bucket)), step_symbol & 1};
    if (step.magnitude_minus_1 > MaxMagnitudeMinus1<T>(step.negative)) return Fault::kStep;
    std::byte* unit = chunk.data() + position * sizeof(T);
    StoreLe(unit, TakeStep(LoadLe<T>(unit), step));
    ++position;
  }
  return Fault::kNone;
}

template <Unit T>
void Apply(ByteSpan payload, MutableByteSpan chunk) {
  const uint64_t units = chunk.size() / sizeof(T);
  ByteReader in(payload);
  const uint64_t count = in.Varint();
  if (count == 0 || count > units) {
    Throw(ErrorCode::kCorrupt, "read chunk: {} changes, 1 to {} allowed", count, units);
  }
  Scratch& scratch = ThreadScratch();
  scratch.gaps.resize(static_cast<size_t>(count));
  scratch.steps.resize(static_cast<size_t>(count));
  ReadSymbols(&in, scratch.gaps);
  ReadSymbols(&in, scratch.steps);
  const ByteSpan extra = in.Take(in.remaining());
  const uint32_t max_gap = BucketOf(static_cast<uint32_t>(kChunkUnits) - 1).symbol;
  const uint32_t max_step = 2 * BucketOf(MaxMagnitudeMinus1<T>(1)).symbol + 1;
  CheckExtra(extra,
             CountExtraBits(scratch.gaps, 0, max_gap) + CountExtraBits(scratch.steps, 1, max_step));
  switch (ApplyChanges<T>(scratch.gaps, scratch.steps, extra, chunk)) {
    case Fault::kNone:
      return;
    case Fault::kPosition:
      Throw(ErrorCode::kCorrupt, "apply chunk: a change lies beyond its {} units", units);
    case Fault::kStep:
      Throw(ErrorCode::kCorrupt, "apply chunk: a step does not fit a unit of {} bytes", sizeof(T));
  }
}

}  // namespace

void EncodeDirect(ByteSpan before, ByteSpan after, size_t unit_bytes,
                  std::span<const uint32_t> positions, ByteVector* payload) {
  if (unit_bytes == 1) return Encode<uint8_t>(before.data(), after.data(), positions, payload);
  if (unit_bytes == 2) return Encode<uint16_t>(before.data(), after.data(), positions, payload);
  Encode<uint32_t>(before.data(), after.data(), positions, payload);
}

void ApplyDirect(ByteSpan payload, size_t unit_bytes, MutableByteSpan chunk) {
  if (unit_bytes == 1) return Apply<uint8_t>(payload, chunk);
  if (unit_bytes == 2) return Apply<uint16_t>(payload, chunk);
  Apply<uint32_t>(payload, chunk);
}

}  // namespace isthmus::codec
