// Models that tests write, change and write again.
#ifndef ISTHMUS_TESTS_SUPPORT_MODEL_H_
#define ISTHMUS_TESTS_SUPPORT_MODEL_H_

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/tensor/dtype.h"
#include "isthmus/tensor/safetensors.h"
#include "tests/support/checkpoints.h"

namespace isthmus::testing {

struct ModelTensor {
  std::string name;
  tensor::Dtype dtype = tensor::Dtype::kBf16;
  tensor::Shape shape;
  std::string shard;
  ByteVector data;
};

// A checkpoint in memory. Write makes it a directory.
struct Model {
  std::vector<ModelTensor> tensors;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> files;  // beside the weights and the index

  // Adds a tensor of random bits.
  void Add(const std::string& name, tensor::Dtype dtype, tensor::Shape shape,
           const std::string& shard, std::mt19937* random) {
    ModelTensor tensor = {name, dtype, std::move(shape), shard, {}};
    tensor.data.resize(tensor::BytesOf(name, dtype, tensor.shape));
    for (std::byte& byte : tensor.data) byte = static_cast<std::byte>((*random)());
    tensors.push_back(std::move(tensor));
  }

  // Flips the low bit of about one byte of `one_in`; returns the bytes changed.
  uint64_t Step(unsigned one_in, std::mt19937* random) {
    uint64_t changed = 0;
    for (ModelTensor& tensor : tensors) {
      for (std::byte& byte : tensor.data) {
        if ((*random)() % one_in != 0) continue;
        byte ^= std::byte{1};
        ++changed;
      }
    }
    return changed;
  }

  ModelTensor& Find(const std::string& name) {
    for (ModelTensor& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::out_of_range(name);
  }

  void Write(const fs::path& directory) const {
    fs::create_directories(directory);
    std::map<std::string, std::vector<const ModelTensor*>> shards;
    std::map<std::string, std::string> weight_map;
    for (const ModelTensor& tensor : tensors) {
      shards[tensor.shard].push_back(&tensor);
      weight_map[tensor.name] = tensor.shard;
    }
    for (const auto& [file, members] : shards) WriteShard(directory / file, members);
    WriteText(directory / "model.safetensors.index.json", IndexJson(weight_map));
    for (const auto& [path, content] : files) {
      fs::create_directories((directory / path).parent_path());
      WriteText(directory / path, content);
    }
  }

 private:
  static void WriteText(const fs::path& path, const std::string& text) {
    File::Create(path).Write(AsBytes(text));
  }

  void WriteShard(const fs::path& path, const std::vector<const ModelTensor*>& members) const {
    std::vector<tensor::TensorInfo> infos;
    infos.reserve(members.size());
    for (const ModelTensor* member : members) {
      infos.push_back({member->name, member->dtype, member->shape, 0, 0});
    }
    File file = File::Create(path);
    file.Write(tensor::MakeSafetensorsHeader(infos, metadata));
    for (const ModelTensor* member : members) file.Write(member->data);
  }
};

// Two shards; tensors of 1, 2, 4 and 8 bytes, packed 4-bit ones, an empty one, a scalar, and one
// of more than one chunk.
inline Model SmallModel(std::mt19937* random) {
  using tensor::Dtype;
  Model model;
  model.metadata = {{"format", "pt"}};
  model.files = {{"config.json", "{\"model_type\":\"test\"}"}, {"sub/vocab.txt", "a b c"}};
  model.Add("embed", Dtype::kBf16, {1200, 900}, "model-00001-of-00002.safetensors", random);
  model.Add("codes", Dtype::kF4, {64, 32}, "model-00001-of-00002.safetensors", random);
  model.Add("empty", Dtype::kF16, {0, 7}, "model-00001-of-00002.safetensors", random);
  model.Add("fp8", Dtype::kF8E4M3, {100, 100}, "model-00002-of-00002.safetensors", random);
  model.Add("scales", Dtype::kF32, {40}, "model-00002-of-00002.safetensors", random);
  model.Add("positions", Dtype::kI64, {33}, "model-00002-of-00002.safetensors", random);
  model.Add("scalar", Dtype::kBf16, {}, "model-00002-of-00002.safetensors", random);
  return model;
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_MODEL_H_
