#include "bench/modelgen_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <span>

#include "isthmus/base/error.h"

namespace isthmus::bench {
namespace {

using tensor::Dtype;
using tensor::Shape;
using tensor::TensorInfo;

constexpr uint64_t kMaxShardBytes = uint64_t{256} << 20;
constexpr uint64_t kMinShards = 4;
constexpr uint64_t kBytesPerParameter = 2;
constexpr uint64_t kHeadElements = 32;
// Narrow models are shallow ones: Llama's 16 to 80 layers at widths of 2048 to 8192 are about
// h/100.
constexpr uint64_t kHiddenPerLayer = 64;
constexpr uint64_t kVocabularyPerHidden = 16;

uint64_t LayerParameters(uint64_t hidden) { return 13 * hidden * hidden + 2 * hidden; }

// Of the usual model of this width.
uint64_t UsualParameters(uint64_t hidden) {
  return ModelShape{hidden, hidden / kHiddenPerLayer, kVocabularyPerHidden * hidden}.parameters();
}

ModelTensor MakeTensor(std::string name, Shape shape) {
  ModelTensor made;
  made.is_norm = shape.size() == 1;
  made.info = {std::move(name), Dtype::kBf16, std::move(shape)};
  made.info.end = tensor::BytesOf(made.info.name, made.info.dtype, made.info.shape);
  return made;
}

void AppendLayer(uint64_t layer, uint64_t hidden, std::vector<ModelTensor>* tensors) {
  const uint64_t keys = hidden / 4;
  const uint64_t inner = hidden / 2 * 7;
  const auto append = [&](std::string_view name, Shape shape) {
    tensors->push_back(
        MakeTensor(fmt::format("model.layers.{}.{}.weight", layer, name), std::move(shape)));
  };
  append("input_layernorm", {hidden});
  append("self_attn.q_proj", {hidden, hidden});
  append("self_attn.k_proj", {keys, hidden});
  append("self_attn.v_proj", {keys, hidden});
  append("self_attn.o_proj", {hidden, hidden});
  append("post_attention_layernorm", {hidden});
  append("mlp.gate_proj", {inner, hidden});
  append("mlp.up_proj", {inner, hidden});
  append("mlp.down_proj", {hidden, inner});
}

std::vector<ModelTensor> TensorsOf(const ModelShape& shape) {
  std::vector<ModelTensor> tensors;
  tensors.push_back(MakeTensor("model.embed_tokens.weight", {shape.vocabulary, shape.hidden}));
  for (uint64_t layer = 0; layer < shape.layers; ++layer) {
    AppendLayer(layer, shape.hidden, &tensors);
  }
  tensors.push_back(MakeTensor("model.norm.weight", {shape.hidden}));
  return tensors;
}

// Fills shard after shard; returns how many.
size_t AssignShards(uint64_t max_bytes, std::vector<ModelTensor>* tensors) {
  size_t shard = 0;
  uint64_t filled = 0;
  for (ModelTensor& tensor : *tensors) {
    if (filled > 0 && filled + tensor.info.bytes() > max_bytes) {
      ++shard;
      filled = 0;
    }
    tensor.shard = shard;
    filled += tensor.info.bytes();
  }
  return shard + 1;
}

// Makes the header of the shard that holds `tensors`, and gives them their places in its file.
ModelShard MakeShard(std::string file, std::span<ModelTensor> tensors) {
  std::vector<TensorInfo> infos;
  for (const ModelTensor& tensor : tensors) infos.push_back(tensor.info);
  ModelShard shard = {std::move(file), tensor::MakeSafetensorsHeader(infos, {{"format", "pt"}})};
  shard.bytes = shard.header.size();
  for (ModelTensor& tensor : tensors) {
    const uint64_t bytes = tensor.info.bytes();
    tensor.info.begin = shard.bytes;
    tensor.info.end = shard.bytes += bytes;
  }
  return shard;
}

}  // namespace

uint64_t ModelShape::parameters() const {
  return vocabulary * hidden + layers * LayerParameters(hidden) + hidden;
}

ModelShape ShapeFor(uint64_t bytes) {
  if (bytes < kMinModelBytes) {
    Throw(ErrorCode::kInvalid, "generate model: {} bytes, at least {} allowed", bytes,
          kMinModelBytes);
  }
  const uint64_t parameters = bytes / kBytesPerParameter;
  uint64_t hidden = kHiddenStep;
  while (UsualParameters(hidden + kHiddenStep) <= parameters) hidden += kHiddenStep;
  const uint64_t least = ModelShape{hidden, 0, kVocabularyPerHidden * hidden}.parameters();
  const uint64_t layers = (parameters - least) / LayerParameters(hidden);
  const uint64_t others = ModelShape{hidden, layers, 0}.parameters();
  return {hidden, layers, (parameters - others) / hidden};
}

ModelLayout LayOutModel(uint64_t bytes) {
  ModelLayout layout = {ShapeFor(bytes), {}, {}, 0};
  layout.tensors = TensorsOf(layout.shape);
  const size_t shards = AssignShards(std::min(kMaxShardBytes, bytes / kMinShards), &layout.tensors);
  for (size_t shard = 0; shard < shards; ++shard) {
    const auto range = std::ranges::equal_range(layout.tensors, shard, {}, &ModelTensor::shard);
    layout.shards.push_back(MakeShard(
        fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards), std::span(range)));
    layout.file_bytes += layout.shards.back().bytes;
  }
  return layout;
}

std::string ConfigJson(const ModelShape& shape) {
  const boost::json::object config = {{"architectures", {"LlamaForCausalLM"}},
                                      {"model_type", "llama"},
                                      {"hidden_size", shape.hidden},
                                      {"intermediate_size", shape.hidden / 2 * 7},
                                      {"num_hidden_layers", shape.layers},
                                      {"num_attention_heads", shape.hidden / kHeadElements},
                                      {"num_key_value_heads", shape.hidden / kHeadElements / 4},
                                      {"head_dim", kHeadElements},
                                      {"vocab_size", shape.vocabulary},
                                      {"tie_word_embeddings", true},
                                      {"torch_dtype", "bfloat16"}};
  return boost::json::serialize(config) + "\n";
}

std::string IndexJson(const ModelLayout& layout) {
  boost::json::object weight_map;
  for (const ModelTensor& tensor : layout.tensors) {
    weight_map[tensor.info.name] = layout.shards[tensor.shard].file;
  }
  const uint64_t total_size = layout.shape.parameters() * kBytesPerParameter;
  const boost::json::object index = {{"metadata", {{"total_size", total_size}}},
                                     {"weight_map", std::move(weight_map)}};
  return boost::json::serialize(index) + "\n";
}

}  // namespace isthmus::bench
