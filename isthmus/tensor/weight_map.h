// The weight_map of model.safetensors.index.json: which shard holds which tensor.
#ifndef ISTHMUS_TENSOR_WEIGHT_MAP_H_
#define ISTHMUS_TENSOR_WEIGHT_MAP_H_

#include <string>
#include <string_view>
#include <vector>

namespace isthmus::tensor {

struct WeightMapEntry {
  std::string tensor;
  std::string shard;  // a file name in the index's directory
};

// The entries by tensor name, byte order. Throws kCorrupt for anything but a JSON object whose
// "weight_map" maps unique tensor names to the names of *.safetensors files; a shard's name has no
// '/', so that an index cannot point out of its directory. Other keys ("metadata") are ignored.
// The message does not name the file.
std::vector<WeightMapEntry> ParseWeightMap(std::string_view json);

}  // namespace isthmus::tensor

#endif  // ISTHMUS_TENSOR_WEIGHT_MAP_H_
