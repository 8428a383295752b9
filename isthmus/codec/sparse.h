// The sparse encodings, direct and context: one coder for both (docs/patch-format.md, 3.3).
#ifndef ISTHMUS_CODEC_SPARSE_H_
#define ISTHMUS_CODEC_SPARSE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "isthmus/codec/activity.h"
#include "isthmus/codec/element.h"
#include "isthmus/codec/model.h"
#include "isthmus/codec/old_units.h"

namespace isthmus::codec {

// Changes are ordered by block, class, place: an order only, sized for a core's caches.
inline constexpr size_t kBlockElements = 4096;
inline constexpr size_t kBlockWords = kBlockElements / 64;

// How elements fall into classes, laid out for vector loads.
struct ClassRule {
  ClassRule(const std::vector<uint8_t>& thresholds, KeyRule key_rule);

  KeyRule key;
  size_t class_count = 1;
  std::array<uint8_t, kMaxClasses> first_key;  // of each class
  std::array<uint8_t, 256> class_of_key;
  // [c]: the key below first_key[c], repeated; less 128, because vectors compare signed bytes best.
  alignas(64) int8_t below[kMaxClasses][64];
};

// What a chunk's changes look like to the coder: in the order of the payload.
struct SparseEvents {
  std::optional<Activity> activity;
  std::vector<uint8_t> classes;
  std::vector<uint32_t> gaps;
  std::vector<PackedStep> steps;

  void Resize(size_t changes) {
    classes.resize(changes);
    gaps.resize(changes);
    steps.resize(changes);
  }
};

// So many entries behind the last one may be written.
inline constexpr size_t kOrderSlack = 16;

// Puts the changes of a chunk into the order of the payload, some of its elements after others.
// Elements are of 1, 2 or 4 bytes, or 4-bit codes one to a byte. Vectorised; every SIMD target
// gives the same result.
class ChangeOrderer {
 public:
  // Where the events go; the caller has room for every change, and kOrderSlack more.
  struct Output {
    uint8_t* classes;
    uint32_t* gaps;
    PackedStep* steps;
  };

  // `active_words` (Activity::WordBits) may be nullptr: all elements are active. Both must outlive
  // this.
  ChangeOrderer(uint32_t element_bits, const ClassRule& rule, const uint64_t* active_words,
                Output output)
      : element_bits_(element_bits), rule_(rule), active_words_(active_words), output_(output) {}

  // Elements [begin, end) of the chunk, which `before` and `after` hold whole. Calls go from the
  // chunk's first element to its last; `begin` is a multiple of kBlockElements. `positions` are the
  // changed elements of the range, ascending. kConflict if somebody writes `before` meanwhile.
  void Order(ByteSpan before, ByteSpan after, uint64_t begin, uint64_t end,
             std::span<const uint32_t> positions);

 private:
  const uint32_t element_bits_;
  const ClassRule& rule_;
  const uint64_t* active_words_;
  Output output_;                                   // of the next event
  std::array<uint32_t, kMaxClasses> next_rank_{};   // behind each class's last change
  std::array<uint32_t, kMaxClasses> first_rank_{};  // of the next element of each class
};

// All changes of a chunk at once.
SparseEvents OrderChanges(ByteSpan before, ByteSpan after, uint32_t element_bits,
                          const ClassRule& rule, std::optional<Activity> activity,
                          std::span<const uint32_t> positions);

// Appends the payload. Every symbol must have a count in the model.
void EncodeSparse(const SparseEvents& events, const Model& model, uint64_t elements,
                  ByteVector* payload);

// Turns `units`, a chunk's old bytes, into the new ones. Any payload whatever ends in a result
// inside `units` or in Error(kCorrupt); after an error their content, and what `old` lists, is
// unspecified. `old` (nullptr: not wanted) gets what was overwritten, in the order of the payload:
// ascending but for the order within kBlockElements units. Thread-safe.
void ApplySparse(ByteSpan payload, const Model& model, tensor::Dtype dtype, MutableByteSpan units,
                 OldUnits* old = nullptr);

// 4-bit codes, one to a byte, from packed bytes and back; codes.size() = 2 * packed.size().
void UnpackCodes(ByteSpan packed, MutableByteSpan codes);
void PackCodes(ByteSpan codes, MutableByteSpan packed);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_SPARSE_H_
