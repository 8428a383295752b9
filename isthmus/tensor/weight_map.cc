#include "isthmus/tensor/weight_map.h"

#include <simdjson.h>

#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/tensor/safetensors.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::tensor {
namespace {

namespace dom = simdjson::dom;

// The one member of the index that says where tensors lie.
dom::object WeightMapOf(dom::object index) {
  dom::object map;
  size_t found = 0;
  for (const dom::key_value_pair& field : index) {
    if (field.key != "weight_map") continue;
    ++found;
    if (field.value.get(map) != simdjson::SUCCESS) {
      Throw(ErrorCode::kCorrupt, "weight_map: expected an object");
    }
  }
  if (found != 1) Throw(ErrorCode::kCorrupt, "key weight_map occurs {} times, expected 1", found);
  return map;
}

WeightMapEntry ReadEntry(const dom::key_value_pair& field) {
  if (!IsTensorName(field.key)) {
    Throw(ErrorCode::kCorrupt, "weight_map: {:?} is not a tensor name", field.key.substr(0, 100));
  }
  std::string_view shard;
  if (field.value.get(shard) != simdjson::SUCCESS) {
    Throw(ErrorCode::kCorrupt, "weight_map: tensor {:?}: expected a file name", field.key);
  }
  if (!IsFilePath(shard) || shard.find('/') != shard.npos || !shard.ends_with(".safetensors")) {
    Throw(ErrorCode::kCorrupt,
          "weight_map: tensor {:?} lies in {:?}, expected the name of a *.safetensors file here",
          field.key, shard.substr(0, 100));
  }
  return {std::string(field.key), std::string(shard)};
}

}  // namespace

std::vector<WeightMapEntry> ParseWeightMap(std::string_view json) {
  // simdjson reads past the end of its input, so it gets a padded copy.
  const simdjson::padded_string padded(json);
  dom::parser parser;
  dom::object index;
  const simdjson::error_code error = parser.parse(padded).get(index);
  if (error != simdjson::SUCCESS) {
    Throw(ErrorCode::kCorrupt, "not a JSON object: {}", simdjson::error_message(error));
  }
  std::vector<WeightMapEntry> entries;
  for (const dom::key_value_pair& field : WeightMapOf(index)) entries.push_back(ReadEntry(field));
  std::ranges::sort(entries, {}, &WeightMapEntry::tensor);
  const auto twice = std::ranges::adjacent_find(entries, {}, &WeightMapEntry::tensor);
  if (twice != entries.end()) {
    Throw(ErrorCode::kCorrupt, "weight_map: tensor {:?} occurs twice", twice->tensor);
  }
  return entries;
}

}  // namespace isthmus::tensor
