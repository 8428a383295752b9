// The weight_map of model.safetensors.index.json.
#include "isthmus/tensor/weight_map.h"

#include "fuzz/fuzz.h"
#include "isthmus/tensor/safetensors.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::fuzz {
namespace {

void FuzzWeightMap(std::string_view json) {
  std::vector<tensor::WeightMapEntry> entries;
  if (!Succeeds([&] { entries = tensor::ParseWeightMap(json); })) return;
  for (size_t i = 0; i < entries.size(); ++i) {
    Require(tensor::IsTensorName(entries[i].tensor), "an entry has no tensor name");
    Require(tensor::IsFilePath(entries[i].shard), "an entry has no file path");
    Require(entries[i].shard.find('/') == std::string::npos, "a shard lies in another folder");
    Require(i == 0 || entries[i - 1].tensor < entries[i].tensor, "entries are not ascending");
  }
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzWeightMap(isthmus::fuzz::TextOf(data, size));
  return 0;
}
