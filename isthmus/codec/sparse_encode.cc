// The encoder's second half: from ordered changes to bits, from the last to the first. Compiled for
// every SIMD target, for the bit instructions that come with them (see hwy/examples/skeleton.cc).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isthmus/codec/sparse_encode.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>

#include "isthmus/codec/sparse.h"

#ifndef ISTHMUS_CODEC_SPARSE_ENCODE_ONCE_
#define ISTHMUS_CODEC_SPARSE_ENCODE_ONCE_
namespace isthmus::codec {

// A model made ready for encoding.
struct EncodeTables {
  struct Gap {
    TansEncodeTable table;
    uint32_t skip_length;
    uint32_t skip_from;  // gaps of so much or more need SKIP
  };
  std::vector<Gap> gaps;
  std::vector<TansEncodeTable> steps;

  explicit EncodeTables(const Model& model) {
    for (const Model::Class& entry : model.classes) {
      GapCounts counts;
      ExpandGapTable(entry.gap, &counts);
      gaps.push_back({TansEncodeTable(counts.counts), counts.skip_length,
                      counts.skip_length == 0 ? kMaxChunkElements : counts.skip_length});
    }
    for (const BucketCounts& table : model.step_tables) {
      steps.emplace_back(ExpandStepTable(table));
    }
  }
};

}  // namespace isthmus::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace isthmus::codec::HWY_NAMESPACE {

// What a gap or a step is coded with; the state goes from call to call.
struct Code {
  uint64_t bits;
  uint32_t count;
};

HWY_INLINE uint32_t LowBits(uint32_t value, uint32_t bits) { return value & ((1u << bits) - 1); }

HWY_INLINE Code GapSymbol(const EncodeTables::Gap& entry, uint32_t symbol, uint64_t extra,
                          uint32_t extra_bits, uint32_t* state) {
  const auto code = entry.table.Encode(symbol, *state);
  *state = code.state;
  return {extra << code.bit_count | code.bits, extra_bits + code.bit_count};
}

HWY_INLINE Code GapBucket(const EncodeTables::Gap& entry, uint32_t gap, uint32_t* state) {
  const Bucket bucket = BucketOf<kGapM>(gap);
  return GapSymbol(entry, bucket.bucket, LowBits(gap, bucket.extra_bits), bucket.extra_bits, state);
}

HWY_INLINE Code StepCode(const TansEncodeTable& table, PackedStep step, uint32_t* state) {
  const uint32_t magnitude = step >> 1;
  const Bucket bucket = BucketOf<kStepM>(magnitude);
  const auto code = table.Encode(bucket.bucket, *state);
  *state = code.state;
  const uint64_t extra = LowBits(magnitude, bucket.extra_bits);
  return {(extra << 1 | (step & 1)) << code.bit_count | code.bits,
          bucket.extra_bits + 1 + code.bit_count};
}

// Codes of one chunk, from the last change to the first.
class CodeWriter {
 public:
  CodeWriter(const Model& model, const EncodeTables& tables, const PrependBits& out)
      : class_count_(model.classes.size()), out_(out) {
    gap_after_.fill(kNone);
    for (size_t c = 0; c < class_count_; ++c) {
      gaps_[c] = &tables.gaps[c];
      steps_[c] = &tables.steps[model.classes[c].step_table];
    }
  }

  // The step of a change of class c and the gap behind it: as the decoder reads them.
  HWY_INLINE void PutChange(size_t c, uint32_t gap, PackedStep step) {
    const uint32_t gap_after = gap_after_[c];
    gap_after_[c] = gap;
    if (HWY_UNLIKELY(gap_after >= gaps_[c]->skip_from)) {
      PutLongGap(c, gap_after);
      return Put(StepCode(*steps_[c], step, &step_state_));
    }
    const Code behind = GapBucket(*gaps_[c], gap_after, &gap_state_);
    const Code code = StepCode(*steps_[c], step, &step_state_);
    // Only steps of 32-bit elements can need more.
    if (HWY_LIKELY(behind.count + code.count <= kMaxPutBits)) {
      return Put({behind.bits << code.count | code.bits, behind.count + code.count});
    }
    Put(behind);
    Put(code);
  }

  // The gaps that lead to the first change of each class, and the states.
  void PutFirst() {
    for (size_t c = class_count_; c-- > 0;) {
      if (gap_after_[c] >= gaps_[c]->skip_from) {
        PutLongGap(c, gap_after_[c]);
      } else {
        Put(GapBucket(*gaps_[c], gap_after_[c], &gap_state_));
      }
    }
    out_.Put(step_state_, kTansBits);
    out_.Put(gap_state_, kTansBits);
  }

  const PrependBits& out() const { return out_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  HWY_INLINE void Put(Code code) { out_.Put(code.bits, code.count); }

  void PutLongGap(size_t c, uint32_t gap) {
    const EncodeTables::Gap& entry = *gaps_[c];
    if (gap == kNone) return Put(GapSymbol(entry, kGapEnd, 0, 0, &gap_state_));
    Put(GapBucket(entry, gap % entry.skip_length, &gap_state_));
    // SKIPs stand before the bucket, so they are written after it.
    for (; gap >= entry.skip_length; gap -= entry.skip_length) {
      Put(GapSymbol(entry, kGapSkip, 0, 0, &gap_state_));
    }
  }

  const size_t class_count_;
  PrependBits out_;
  uint32_t gap_state_ = 0;
  uint32_t step_state_ = 0;
  std::array<const EncodeTables::Gap*, kMaxClasses> gaps_;
  std::array<const TansEncodeTable*, kMaxClasses> steps_;
  std::array<uint32_t, kMaxClasses> gap_after_;  // the gap behind the change at hand
};

void PutEvents(const SparseEvents& events, const Model& model, const EncodeTables& tables,
               PrependBits* out) {
  CodeWriter writer(model, tables, *out);
  for (size_t i = events.gaps.size(); i-- > 0;) {
    writer.PutChange(events.classes[i], events.gaps[i], events.steps[i]);
  }
  writer.PutFirst();
  *out = writer.out();
}

}  // namespace isthmus::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::codec {
namespace {

HWY_EXPORT(PutEvents);

// An upper bound of the stream's bytes. SKIPs: each leads past as many elements of its class as the
// skip length says, and no element is of two classes.
size_t BufferBytes(const SparseEvents& events, const EncodeTables& tables, uint64_t elements) {
  constexpr size_t kBytesPerChange = 9;  // 9 + 21 bits of gap, 9 + 30 of step
  uint64_t shortest_skip = kMaxChunkElements;
  for (const EncodeTables::Gap& gap : tables.gaps) {
    shortest_skip = std::min<uint64_t>(shortest_skip, gap.skip_from);
  }
  const uint64_t skips = elements / shortest_skip + tables.gaps.size();
  const uint64_t bitmap = events.activity ? elements / 64 + 64 : 0;
  return (events.gaps.size() + tables.gaps.size()) * kBytesPerChange + skips * 2 + bitmap + 64 +
         kPrependSlack;
}

}  // namespace

void EncodeSparse(const SparseEvents& events, const Model& model, uint64_t elements,
                  ByteVector* payload) {
  thread_local ByteVector buffer;
  const EncodeTables tables(model);
  buffer.resize(BufferBytes(events, tables, elements));
  PrependBits out(buffer);
  HWY_DYNAMIC_DISPATCH(PutEvents)(events, model, tables, &out);
  if (events.activity) PrependActivity(*events.activity, elements, &out);
  const PrependBits::Front front = out.Finish();
  const uint32_t bitmap = events.activity ? 8 : 0;
  payload->push_back(static_cast<std::byte>(front.pad | bitmap));
  payload->insert(payload->end(), front.begin, buffer.data() + buffer.size());
}

}  // namespace isthmus::codec
#endif
