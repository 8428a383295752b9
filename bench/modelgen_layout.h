// The shape of a generated model, and where each of its tensors lies on disk.
#ifndef BENCH_MODELGEN_LAYOUT_H_
#define BENCH_MODELGEN_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "isthmus/base/bytes.h"
#include "isthmus/tensor/safetensors.h"

namespace isthmus::bench {

// A decoder-only transformer with grouped-query attention and a gated MLP (Llama's tensors, names
// included) in BF16, its output head tied to the embedding. With `hidden` = h:
//   q, o: h x h;  k, v: h/4 x h;  gate, up: 3.5h x h;  down: h x 3.5h;  norms: h
// so a layer has 13 h^2 + 2h parameters; embedding: vocabulary x h; last norm: h.
struct ModelShape {
  uint64_t hidden = 0;  // a multiple of kHiddenStep
  uint64_t layers = 0;
  uint64_t vocabulary = 0;

  uint64_t parameters() const;
};

// Heads of 32 elements, four query heads per key: h is a multiple of 128.
inline constexpr uint64_t kHiddenStep = 128;
inline constexpr uint64_t kMinModelBytes = uint64_t{2} << 20;

// The largest model of at most `bytes` bytes, which is less than one row of the embedding smaller.
// Depth and width grow together (about h/64 layers); the vocabulary, at least 16h, takes up the
// rest. Throws kInvalid below kMinModelBytes.
ModelShape ShapeFor(uint64_t bytes);

struct ModelTensor {
  tensor::TensorInfo info;  // with its place in its shard's file
  size_t shard = 0;
  bool is_norm = false;

  uint64_t elements() const { return info.bytes() / 2; }
};

struct ModelShard {
  std::string file;
  ByteVector header;
  uint64_t bytes = 0;  // of the whole file
};

struct ModelLayout {
  ModelShape shape;
  std::vector<ModelTensor> tensors;  // in the model's order; shards hold consecutive ones
  std::vector<ModelShard> shards;
  uint64_t file_bytes = 0;  // all shards
};

// At least four shards, of at most 256 MiB, but for tensors that are larger than that.
ModelLayout LayOutModel(uint64_t bytes);

// Contents of config.json and model.safetensors.index.json.
std::string ConfigJson(const ModelShape& shape);
std::string IndexJson(const ModelLayout& layout);

}  // namespace isthmus::bench

#endif  // BENCH_MODELGEN_LAYOUT_H_
