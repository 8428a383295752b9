// Models that inputs can name by a number, so that a fuzzer need not find one.
#ifndef ISTHMUS_FUZZ_SPARSE_MODELS_H_
#define ISTHMUS_FUZZ_SPARSE_MODELS_H_

#include <vector>

#include "isthmus/codec/model.h"

namespace isthmus::fuzz {

// Of one class, and of up to sixteen; of units and of 4-bit codes; geometric and explicit gaps.
const std::vector<codec::Model>& SparseModels();

}  // namespace isthmus::fuzz

#endif  // ISTHMUS_FUZZ_SPARSE_MODELS_H_
