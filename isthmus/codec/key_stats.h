// How changes depend on the key of the old value, and the classes that follow from it.
#ifndef ISTHMUS_CODEC_KEY_STATS_H_
#define ISTHMUS_CODEC_KEY_STATS_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "isthmus/base/bytes.h"
#include "isthmus/codec/element.h"

namespace isthmus::codec {

// What a sample of a chunk says of it.
struct KeySample {
  std::vector<PackedStep> steps;                // of the changed elements among `compared`
  std::vector<uint8_t> keys;                    // their old keys
  std::array<uint32_t, 256> counted_keys = {};  // of some elements
  uint64_t elements = 0;                        // of the chunk
  uint64_t compared = 0;                        // of these
  uint64_t counted = 0;                         // of these, changed or not
};

// Steps are told apart up to here; larger ones are rare and cost about their extra bits.
inline constexpr size_t kStatStepBuckets = 32;

// Sums over the chunks of a run, estimated from samples.
struct KeyStats {
  std::array<double, 256> population = {};  // elements
  std::array<double, 256> changes = {};
  std::array<std::array<double, kStatStepBuckets>, 256> steps = {};  // changes by bucket
  uint64_t chunks = 0;
  uint64_t elements = 0;
  uint64_t compared = 0;  // of these, for the changes

  void Add(const KeySample& chunk);
  void Add(const KeyStats& other);
};

// Lower bounds of the classes but the first, and what coding with them costs, in bits: positions,
// steps, the model itself.
struct ClassChoice {
  std::vector<uint8_t> thresholds;
  double bits = 0;
};

// The cheapest at most `max_classes` classes, by dynamic programming over ranges of keys.
ClassChoice ChooseClasses(const KeyStats& stats, size_t max_classes);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_KEY_STATS_H_
