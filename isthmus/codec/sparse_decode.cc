// Decoding of sparse payloads: one kernel, compiled for every SIMD target
// (see hwy/examples/skeleton.cc).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isthmus/codec/sparse_decode.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <array>

#include "isthmus/codec/block_masks-inl.h"
#include "isthmus/codec/decode_tables.h"

#ifndef ISTHMUS_CODEC_SPARSE_DECODE_ONCE_
#define ISTHMUS_CODEC_SPARSE_DECODE_ONCE_
namespace isthmus::codec {

// What ended the decoding of a chunk.
enum class DecodeFault { kNone, kStream, kGap, kStep };

struct DecodeJob {
  BitCursor in;  // behind the bitmap
  const DecodeTables* tables;
  const ClassRule* rule;
  const uint64_t* active_words;  // a bit for each 64 elements; nullptr: all active
  std::byte* elements;
  uint64_t count;
  // Where each change is listed, elements being units; without a step one behind the other.
  OldUnit* old;
  size_t old_step;
};

}  // namespace isthmus::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace isthmus::codec::HWY_NAMESPACE {

// Reads codes of one chunk; keeps both coder states.
class CodeReader {
 public:
  CodeReader(const BitCursor& in, const DecodeTables& tables) : in_(in), tables_(&tables) {
    gap_state_ = in_.Take(kTansBits);
    step_state_ = in_.Take(kTansBits);
  }

  // kNoFurtherGap or more at the end of the class, or where the stream makes no sense.
  HWY_INLINE uint32_t Gap(size_t c) {
    uint64_t window = in_.Window();
    return GapFrom(c, &window);
  }

  // The step of a change of class c, and the gap that follows it.
  template <uint32_t kBits>
  HWY_INLINE PackedStep StepThenGap(size_t c, uint32_t* gap) {
    uint64_t window = in_.Window();
    const TansEntry entry = tables_->steps[tables_->step_table[c]][step_state_];
    const uint32_t state_bits = entry.state_bits();
    step_state_ = entry.next() + Low(window, state_bits);
    window >>= state_bits;
    const uint32_t extra_bits = entry.extra_bits();  // with the sign
    const uint32_t extra = Low(window, extra_bits);
    window >>= extra_bits;
    in_.bit += state_bits + extra_bits;
    // A gap takes up to 9 + 21 bits, a step up to 9 + 15: only wider ones need a second load.
    if (kBits > 16) window = in_.Window();
    *gap = GapFrom(c, &window);
    return (tables_->step_start[entry.symbol()] << 1) + extra;
  }

  bool Past() const { return in_.Past(); }
  bool AtEnd() const { return in_.bit == in_.end && gap_state_ == 0 && step_state_ == 0; }

 private:
  static HWY_INLINE uint32_t Low(uint64_t window, uint32_t bits) {
    return static_cast<uint32_t>(window & ((uint64_t{1} << bits) - 1));
  }

  HWY_INLINE uint32_t GapFrom(size_t c, uint64_t* window) {
    const TansEntry entry = tables_->gaps[c][gap_state_];
    const uint32_t state_bits = entry.state_bits();
    gap_state_ = entry.next() + Low(*window, state_bits);
    const uint32_t extra_bits = entry.extra_bits();
    const uint32_t extra = Low(*window >> state_bits, extra_bits);
    in_.bit += state_bits + extra_bits;
    if (HWY_UNLIKELY(entry.symbol() == kGapSkip)) {
      CodeReader copy = *this;  // whose address may be taken, so that *this can stay in registers
      const uint32_t gap = copy.GapAfterSkip(c);
      *this = copy;
      return gap;
    }
    return tables_->gap_start[entry.symbol()] + extra;
  }

  HWY_NOINLINE uint32_t GapAfterSkip(size_t c) {
    uint32_t skipped = tables_->skip_length[c];
    while (skipped < kMaxChunkElements && !in_.Past()) {
      const TansEntry entry = tables_->gaps[c][gap_state_];
      gap_state_ = entry.next() + in_.Take(entry.state_bits());
      if (entry.symbol() == kGapEnd) break;
      if (entry.symbol() != kGapSkip) {
        return skipped + tables_->gap_start[entry.symbol()] + in_.Take(entry.extra_bits());
      }
      skipped += tables_->skip_length[c];
    }
    in_.bit = in_.end + 1;  // no stream may lead here
    return kNoFurtherGap;
  }

  BitCursor in_;
  const DecodeTables* tables_;
  uint32_t gap_state_ = 0;
  uint32_t step_state_ = 0;
};

// Bit 31 of the result is set if the step is too large.
template <uint32_t kBits>
HWY_INLINE uint32_t ChangeElement(typename Element<kBits>::Bits* at, PackedStep step,
                                  uint32_t position, OldUnit* old) {
  using Bits = typename Element<kBits>::Bits;
  Bits bits;
  std::memcpy(&bits, at, sizeof bits);
  *old = {position, bits};
  bits = TakeStep<kBits>(bits, step);
  std::memcpy(at, &bits, sizeof bits);
  return Element<kBits>::MaxMagnitudeMinus1(step & 1) - (step >> 1);
}

template <uint32_t kBits, typename Masks>
class Decoder {
 public:
  using Bits = typename Element<kBits>::Bits;

  explicit Decoder(const DecodeJob& job)
      : job_(job),
        old_(job.old),
        codes_(job.in, *job.tables),
        classes_(job.rule->class_count),
        masks_(*job.rule) {}

  DecodeFault Run() {
    for (size_t c = 0; c < classes_; ++c) {
      next_[c] = codes_.Gap(c);
      if (codes_.Past()) return DecodeFault::kStream;  // all of them could take 60 bytes
    }
    const bool one_class = classes_ == 1 && job_.active_words == nullptr;
    const DecodeFault fault = one_class ? RunPlain() : RunBlocks();
    if (fault != DecodeFault::kNone) return fault;
    // Whatever is left of a class must be its end.
    for (size_t c = 0; c < classes_; ++c) {
      if (next_[c] < kNoFurtherGap) return DecodeFault::kGap;
    }
    return codes_.AtEnd() && changed_ ? DecodeFault::kNone : DecodeFault::kStream;
  }
  OldUnit* old() const { return old_; }

 private:
  // With one class and no bitmap a rank is a place.
  DecodeFault RunPlain() {
    Bits* const elements = reinterpret_cast<Bits*>(job_.elements);
    CodeReader codes = codes_;
    OldUnit* old = old_;
    uint64_t next = next_[0];
    uint32_t faults = 0;
    while (next < job_.count && !codes.Past()) {
      uint32_t gap = 0;
      const PackedStep step = codes.template StepThenGap<kBits>(0, &gap);
      faults |= ChangeElement<kBits>(elements + next, step, static_cast<uint32_t>(next), old);
      old += job_.old_step;
      next += uint64_t{1} + gap;
      changed_ = true;
    }
    codes_ = codes;
    old_ = old;
    next_[0] = static_cast<uint32_t>(std::min<uint64_t>(next, UINT32_MAX));
    if (codes.Past()) return DecodeFault::kStream;
    return faults >> 31 == 0 ? DecodeFault::kNone : DecodeFault::kStep;
  }

  DecodeFault RunBlocks() {
    for (uint64_t at = 0; at < job_.count; at += kBlockElements) {
      uint64_t active = ~uint64_t{0};
      if (job_.active_words != nullptr) active = job_.active_words[at / kBlockElements];
      if (active == 0) continue;
      const size_t count = static_cast<size_t>(std::min<uint64_t>(kBlockElements, job_.count - at));
      const DecodeFault fault = RunBlock(static_cast<uint32_t>(at), count, active);
      if (fault != DecodeFault::kNone) return fault;
    }
    return DecodeFault::kNone;
  }

  // All masks are built before the first element of the block changes.
  DecodeFault RunBlock(uint32_t at, size_t count, uint64_t active) {
    Bits* const elements = reinterpret_cast<Bits*>(job_.elements) + at;
    const auto* const next_block = reinterpret_cast<const std::byte*>(elements + kBlockElements);
    masks_.Build(elements, count, active, next_block);
    masks_.PreparePlaces();
    for (size_t c = 0; c < classes_; ++c) {
      PrefetchRest<Bits>(next_block, c, classes_);
      const uint32_t end = first_[c] + masks_.Count(c);
      if (next_[c] < end) {
        const DecodeFault fault = RunClass(at, c, end);
        if (fault != DecodeFault::kNone) return fault;
      }
      first_[c] = end;
    }
    return DecodeFault::kNone;
  }

  DecodeFault RunClass(uint32_t at, size_t c, uint32_t end) {
    Bits* const elements = reinterpret_cast<Bits*>(job_.elements) + at;
    OldUnit* old = old_;
    CodeReader codes = codes_;  // in registers: elements could alias *this
    uint32_t next = next_[c];
    const uint32_t first = first_[c];
    uint32_t faults = 0;
    do {
      uint32_t gap = 0;
      const PackedStep step = codes.template StepThenGap<kBits>(c, &gap);
      const uint32_t place = masks_.PlaceOf(c, next - first);
      faults |= ChangeElement<kBits>(elements + place, step, at + place, old);
      old += job_.old_step;
      next += 1 + gap;
    } while (next < end && !codes.Past());
    codes_ = codes;
    old_ = old;
    next_[c] = next;
    changed_ = true;
    if (HWY_UNLIKELY(codes.Past())) return DecodeFault::kStream;
    return HWY_LIKELY(faults >> 31 == 0) ? DecodeFault::kNone : DecodeFault::kStep;
  }

  const DecodeJob& job_;
  OldUnit* old_;
  CodeReader codes_;
  const size_t classes_;
  bool changed_ = false;
  std::array<uint32_t, kMaxClasses> next_{};   // rank of the next change of each class
  std::array<uint32_t, kMaxClasses> first_{};  // rank of the block's first element of each class
  Masks masks_;
};

template <uint32_t kBits, typename Masks>
DecodeFault Decode(DecodeJob* job) {
  Decoder<kBits, Masks> decoder(*job);
  const DecodeFault fault = decoder.Run();
  job->old = decoder.old();
  return fault;
}

// Leaves job->old behind the last change that was listed.
DecodeFault DecodeElements(DecodeJob* job, uint32_t element_bits) {
  return WithMasksFor(*job->rule, [&]<typename Masks>() {
    if (element_bits == 4) return Decode<4, Masks>(job);
    if (element_bits == 8) return Decode<8, Masks>(job);
    if (element_bits == 16) return Decode<16, Masks>(job);
    return Decode<32, Masks>(job);
  });
}

}  // namespace isthmus::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "isthmus/base/error.h"

namespace isthmus::codec {
namespace {

HWY_EXPORT(DecodeElements);

// A copy of the payload's stream with the padding that BitCursor asks for.
BitCursor OpenStream(ByteSpan payload, ByteVector* copy, bool* has_bitmap) {
  constexpr uint8_t kBitmap = 8;
  if (payload.size() < 2) {
    Throw(ErrorCode::kCorrupt, "read chunk: payload of {} bytes, at least 2 expected",
          payload.size());
  }
  const auto head = std::to_integer<uint8_t>(payload[0]);
  if (head >= 2 * kBitmap) {
    Throw(ErrorCode::kCorrupt, "read chunk: head {:#x}, its upper bits must be zero", head);
  }
  copy->assign(payload.begin() + 1, payload.end());
  copy->resize(copy->size() + kStreamPadding);
  BitCursor in = {copy->data(), 0, (payload.size() - 1) * 8};
  if (in.Take(head % 8) != 0) {
    Throw(ErrorCode::kCorrupt, "read chunk: bits before the stream are not zero");
  }
  *has_bitmap = (head & kBitmap) != 0;
  return in;
}

void ThrowFault(DecodeFault fault, uint32_t element_bits) {
  switch (fault) {
    case DecodeFault::kNone:
      return;
    case DecodeFault::kStream:
      Throw(ErrorCode::kCorrupt, "apply chunk: the changes do not end where the stream ends");
    case DecodeFault::kGap:
      Throw(ErrorCode::kCorrupt, "apply chunk: a gap leads beyond the last element of its class");
    case DecodeFault::kStep:
      Throw(ErrorCode::kCorrupt, "apply chunk: a step does not fit an element of {} bits",
            element_bits);
  }
}

void DecodePayload(ByteSpan payload, const Model& model, tensor::Dtype dtype, DecodeJob* job) {
  thread_local ByteVector stream;
  bool has_bitmap = false;
  const uint32_t element_bits = ElementBits(model.elements, dtype);
  const ClassRule rule(model.thresholds, KeyRuleOf(model.elements, dtype));
  job->in = OpenStream(payload, &stream, &has_bitmap);
  job->tables = &TablesFor(model);
  job->rule = &rule;
  job->active_words = nullptr;
  std::vector<uint64_t> active_words;
  if (has_bitmap) {
    active_words = ReadActivity(&job->in, job->count).WordBits(job->count);
    job->active_words = active_words.data();
  }
  ThrowFault(HWY_DYNAMIC_DISPATCH(DecodeElements)(job, element_bits), element_bits);
}

void ApplyUnits(ByteSpan payload, const Model& model, tensor::Dtype dtype, MutableByteSpan units,
                OldUnits* old) {
  OldUnit any;
  DecodeJob job = {};
  job.elements = units.data();
  job.count = units.size() / tensor::UnitBytes(dtype);
  job.old = old == nullptr ? &any : old->room();
  job.old_step = old == nullptr ? 0 : 1;
  DecodePayload(payload, model, dtype, &job);
  if (old != nullptr) old->SetCount(static_cast<size_t>(job.old - old->room()));
}

void ApplyCodes(ByteSpan payload, const Model& model, tensor::Dtype dtype, MutableByteSpan units) {
  thread_local ByteVector codes;
  codes.resize(units.size() * 2);
  UnpackCodes(units, codes);
  OldUnit any;
  DecodeJob job = {};
  job.elements = codes.data();
  job.count = codes.size();
  job.old = &any;
  DecodePayload(payload, model, dtype, &job);
  PackCodes(codes, units);
}

}  // namespace

void ApplySparse(ByteSpan payload, const Model& model, tensor::Dtype dtype, MutableByteSpan units,
                 OldUnits* old) {
  if (model.elements == Elements::kUnits) return ApplyUnits(payload, model, dtype, units, old);
  const auto apply = [&] { ApplyCodes(payload, model, dtype, units); };
  if (old == nullptr) return apply();
  old->Watch(units, tensor::UnitBytes(dtype), apply);
}

}  // namespace isthmus::codec
#endif
