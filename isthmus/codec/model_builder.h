// The tables of a model, from the changes that it is for.
#ifndef ISTHMUS_CODEC_MODEL_BUILDER_H_
#define ISTHMUS_CODEC_MODEL_BUILDER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "isthmus/codec/model.h"
#include "isthmus/codec/sparse.h"

namespace isthmus::codec {

// Symbol frequencies of the chunks that will share a model.
class ModelBuilder {
 public:
  ModelBuilder(Elements elements, std::vector<uint8_t> thresholds);

  // The events of one chunk, ordered with these thresholds.
  void Add(const SparseEvents& events);
  // All symbols that were added have a count in the model.
  Model Build() const;

  struct ClassCounts {
    std::array<uint64_t, kMaxGapBuckets> gaps{};
    std::array<uint64_t, kMaxStepBuckets> steps{};
    uint64_t changes = 0;
    uint64_t gap_sum = 0;
  };

 private:
  Elements elements_;
  std::vector<uint8_t> thresholds_;
  std::vector<ClassCounts> classes_;
  uint64_t chunks_ = 0;
};

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_MODEL_BUILDER_H_
