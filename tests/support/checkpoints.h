// Small checkpoints for tests.
#ifndef ISTHMUS_TESTS_SUPPORT_CHECKPOINTS_H_
#define ISTHMUS_TESTS_SUPPORT_CHECKPOINTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isthmus/base/bytes.h"
#include "isthmus/base/random.h"
#include "isthmus/tensor/safetensors.h"

namespace isthmus::testing {

// A safetensors file with this header, valid or not, and so many zero bytes of data.
inline std::string SafetensorsFile(std::string_view json, size_t data_bytes) {
  ByteWriter writer;
  writer.Le<uint64_t>(json.size());
  writer.Append(AsBytes(json));
  return std::string(AsText(writer.bytes())) + std::string(data_bytes, '\0');
}

// A safetensors file with U8 tensors of these names and sizes, and random data.
inline std::string RandomShard(const std::vector<std::pair<std::string, uint64_t>>& tensors) {
  std::vector<tensor::TensorInfo> infos;
  uint64_t data_bytes = 0;
  for (const auto& [name, bytes] : tensors) {
    infos.push_back({name, tensor::Dtype::kU8, {bytes}, 0, 0});
    data_bytes += bytes;
  }
  ByteVector file = tensor::MakeSafetensorsHeader(infos);
  const size_t header_bytes = file.size();
  file.resize(header_bytes + data_bytes);
  SystemRandom().Fill(MutableByteSpan(file).subspan(header_bytes));
  return std::string(AsText(file));
}

// model.safetensors.index.json for this weight_map. Nothing is escaped.
inline std::string IndexJson(const std::map<std::string, std::string>& weight_map) {
  std::string items;
  for (const auto& [tensor, shard] : weight_map) {
    if (!items.empty()) items += ',';
    items.append("\"").append(tensor).append("\":\"").append(shard).append("\"");
  }
  return "{\"metadata\":{},\"weight_map\":{" + items + "}}";
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_CHECKPOINTS_H_
