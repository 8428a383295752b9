// The encoder's first half: changes in the order of the payload, with their gaps. Compiled for
// every SIMD target (see hwy/examples/skeleton.cc).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isthmus/codec/sparse_events.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <array>

#include "isthmus/codec/block_masks-inl.h"

#ifndef ISTHMUS_CODEC_SPARSE_EVENTS_ONCE_
#define ISTHMUS_CODEC_SPARSE_EVENTS_ONCE_
namespace isthmus::codec {

struct OrderJob {
  const std::byte* before;  // the chunk's elements
  const std::byte* after;
  uint64_t begin;
  uint64_t end;
  const ClassRule* rule;
  const uint64_t* active_words;  // nullptr: all active
  std::span<const uint32_t> positions;
  ChangeOrderer::Output* output;
  bool* changed_meanwhile;
  uint32_t* next_rank;
  uint32_t* first_rank;
};

}  // namespace isthmus::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace isthmus::codec::HWY_NAMESPACE {

template <uint32_t kBits, typename Masks>
class Orderer {
 public:
  using Bits = typename Element<kBits>::Bits;

  explicit Orderer(const OrderJob& job)
      : job_(job),
        before_(reinterpret_cast<const Bits*>(job.before)),
        after_(reinterpret_cast<const Bits*>(job.after)),
        out_(*job.output),
        masks_(*job.rule) {}

  void Run() {
    if (job_.rule->class_count == 1 && job_.active_words == nullptr) {
      RunPlain();
    } else {
      RunBlocks();
    }
    *job_.output = out_;
  }

 private:
  static Bits Load(const Bits* at) {
    Bits bits;
    std::memcpy(&bits, at, sizeof bits);
    return bits;
  }

  // With one class and no bitmap a place is a rank.
  void RunPlain() {
    ChangeOrderer::Output out = out_;
    uint32_t next = job_.next_rank[0];
    for (const uint32_t position : job_.positions) {
      *out.classes++ = 0;
      *out.gaps++ = position - next;
      *out.steps++ = StepBetween<kBits>(Load(before_ + position), Load(after_ + position));
      next = position + 1;
    }
    job_.next_rank[0] = next;
    out_ = out;
  }

  void RunBlocks() {
    size_t first = 0;
    for (uint64_t at = job_.begin; at < job_.end; at += kBlockElements) {
      const uint64_t active =
          job_.active_words == nullptr ? ~uint64_t{0} : job_.active_words[at / kBlockElements];
      if (active == 0) continue;
      const uint64_t end = std::min<uint64_t>(at + kBlockElements, job_.end);
      size_t last = first;
      while (last < job_.positions.size() && job_.positions[last] < end) ++last;
      masks_.Build(before_ + at, static_cast<size_t>(end - at), active, NextBlock(at));
      RunBlock(at, job_.positions.subspan(first, last - first));
      first = last;
    }
  }
  const std::byte* NextBlock(uint64_t at) const {
    return reinterpret_cast<const std::byte*>(before_ + at + kBlockElements);
  }

  // The changes of the block that begins at element `at`.
  void RunBlock(uint64_t at, std::span<const uint32_t> positions) {
    std::array<uint32_t, kMaxClasses> counts{};
    Spread(at, positions, &counts);
    ChangeOrderer::Output out = out_;
    for (size_t c = 0; c < job_.rule->class_count; ++c) {
      PrefetchRest<Bits>(NextBlock(at), c, job_.rule->class_count);
      Append(c, counts[c], &out);
      job_.first_rank[c] += masks_.Count(c);
    }
    out_ = out;
  }

  // Each change to the list of its class. In one go, because where one class ends is hard to
  // predict.
  void Spread(uint64_t at, std::span<const uint32_t> positions,
              std::array<uint32_t, kMaxClasses>* counts) {
    const KeyRule key = job_.rule->key;
    bool backward = false;
    for (const uint32_t position : positions) {
      const Bits from = Load(before_ + position);
      const size_t c = job_.rule->class_of_key[KeyOf<kBits>(from, key)];
      const uint32_t i = (*counts)[c]++;
      const uint32_t rank =
          job_.first_rank[c] + masks_.RankOf(c, static_cast<uint32_t>(position - at));
      const uint32_t next = job_.next_rank[c];
      backward |= rank < next;
      job_.next_rank[c] = rank + 1;
      lists_[c].gaps[i] = rank - next;
      lists_[c].steps[i] = StepBetween<kBits>(from, Load(after_ + position));
    }
    // Only if the old bytes are not what the masks were made of any more.
    *job_.changed_meanwhile |= backward;
  }

  // Whole vectors: what they write behind the list, the next one writes again.
  HWY_INLINE void Append(size_t c, uint32_t count, ChangeOrderer::Output* out) const {
    const hn::CappedTag<uint32_t, kOrderSlack> d;
    const hn::Rebind<uint8_t, decltype(d)> d8;
    for (size_t i = 0; i < count; i += hn::Lanes(d)) {
      hn::StoreU(hn::Set(d8, static_cast<uint8_t>(c)), d8, out->classes + i);
      hn::StoreU(hn::LoadU(d, lists_[c].gaps + i), d, out->gaps + i);
      hn::StoreU(hn::LoadU(d, lists_[c].steps + i), d, out->steps + i);
    }
    out->classes += count;
    out->gaps += count;
    out->steps += count;
  }

  // Changes of a class in the block at hand. Of a size that keeps the first entries of all classes,
  // often the only ones, from competing for the same cache lines.
  struct List {
    uint32_t gaps[kBlockElements + 32];
    PackedStep steps[kBlockElements + 48];
  };

  const OrderJob& job_;
  const Bits* before_;
  const Bits* after_;
  ChangeOrderer::Output out_;
  std::array<List, Masks::kMostClasses> lists_;
  Masks masks_;
};

void OrderElements(const OrderJob& job, uint32_t element_bits) {
  WithMasksFor(*job.rule, [&]<typename Masks>() {
    if (element_bits == 4) return Orderer<4, Masks>(job).Run();
    if (element_bits == 8) return Orderer<8, Masks>(job).Run();
    if (element_bits == 16) return Orderer<16, Masks>(job).Run();
    return Orderer<32, Masks>(job).Run();
  });
}

}  // namespace isthmus::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "isthmus/base/error.h"

namespace isthmus::codec {
namespace {

HWY_EXPORT(OrderElements);

}  // namespace

void ChangeOrderer::Order(ByteSpan before, ByteSpan after, uint64_t begin, uint64_t end,
                          std::span<const uint32_t> positions) {
  bool changed_meanwhile = false;
  OrderJob job = {};
  job.before = before.data();
  job.after = after.data();
  job.begin = begin;
  job.end = end;
  job.rule = &rule_;
  job.active_words = active_words_;
  job.positions = positions;
  job.output = &output_;
  job.changed_meanwhile = &changed_meanwhile;
  job.next_rank = next_rank_.data();
  job.first_rank = first_rank_.data();
  HWY_DYNAMIC_DISPATCH(OrderElements)(job, element_bits_);
  if (changed_meanwhile) {
    Throw(ErrorCode::kConflict, "compare chunk: its old bytes changed while they were compared");
  }
}

SparseEvents OrderChanges(ByteSpan before, ByteSpan after, uint32_t element_bits,
                          const ClassRule& rule, std::optional<Activity> activity,
                          std::span<const uint32_t> positions) {
  SparseEvents events;
  events.Resize(positions.size() + kOrderSlack);
  const uint64_t count = before.size() / std::max<uint32_t>(element_bits / 8, 1);
  std::vector<uint64_t> active_words;
  if (activity) active_words = activity->WordBits(count);
  ChangeOrderer orderer(element_bits, rule, activity ? active_words.data() : nullptr,
                        {events.classes.data(), events.gaps.data(), events.steps.data()});
  orderer.Order(before, after, 0, count, positions);
  events.Resize(positions.size());
  events.activity = std::move(activity);
  return events;
}

}  // namespace isthmus::codec
#endif
