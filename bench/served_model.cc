#include "bench/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/modelgen_kernel.h"
#include "bench/projection.h"
#include "isthmus/tensor/safetensors.h"

namespace isthmus::bench {
namespace {

using tensor::Dtype;
using tensor::TensorInfo;

// An expert of DeepSeek-V2-Lite.
constexpr uint64_t kHidden = 2048;
constexpr uint64_t kInner = 1408;
constexpr uint64_t kMatrixElements = kHidden * kInner;
static_assert(kMatrixElements % kBlockElements == 0 && kHidden % kFp8Block == 0 &&
              kInner % kFp8Block == 0);
constexpr size_t kMatricesPerExpert = 3;
constexpr size_t kExpertsPerLayer = 8;

constexpr uint64_t kBlockRows = kBlockElements / kHidden;  // of the embedding
constexpr uint64_t kRowsPerActiveRow = 10;

constexpr InitialWeights kWeights = {0.0f, 0.025f};
constexpr size_t kSteps = 2;

std::vector<UpdateRates> RatesOf(const ServedModelOptions& options) {
  return AdamRates(options.learning_rate, options.warmup + kSteps - 1);
}

// Both steps' files, their tensors laid out one after another.
class StepFiles {
 public:
  StepFiles(const fs::path& out, std::vector<TensorInfo> tensors) : tensors_(std::move(tensors)) {
    for (TensorInfo& info : tensors_) info.end = tensor::BytesOf(info.name, info.dtype, info.shape);
    const ByteVector header = tensor::MakeSafetensorsHeader(tensors_, {{"format", "pt"}});
    uint64_t at = header.size();
    for (TensorInfo& info : tensors_) {
      info.begin = at;
      info.end = at += info.end;
    }
    for (size_t step = 0; step < kSteps; ++step) {
      const fs::path directory = out / fmt::format("step-{}", step);
      CreateDirectories(directory);
      files_.push_back(File::CreateNew(directory / "model.safetensors"));
      files_.back().WriteAt(0, header);
    }
  }

  // Thread-safe for distinct places.
  void Write(size_t step, size_t tensor, uint64_t offset, ByteSpan bytes) const {
    files_[step].WriteAt(tensors_[tensor].begin + offset, bytes);
  }

 private:
  std::vector<TensorInfo> tensors_;
  std::vector<File> files_;
};

TensorInfo MakeInfo(std::string name, Dtype dtype, tensor::Shape shape) {
  return {std::move(name), dtype, std::move(shape), 0, 0};
}

// The matrix's codes and scales, as tensors.
std::array<TensorInfo, 2> MatrixTensors(ServedFormat format, const std::string& name, uint64_t rows,
                                        uint64_t columns) {
  switch (format) {
    case ServedFormat::kFp8:
      return {MakeInfo(name + ".weight", Dtype::kF8E4M3, {rows, columns}),
              MakeInfo(name + ".weight_scale_inv", Dtype::kF32,
                       {rows / kFp8Block, columns / kFp8Block})};
    case ServedFormat::kInt4:
      return {MakeInfo(name + ".weight_packed", Dtype::kI32, {rows, columns / 8}),
              MakeInfo(name + ".weight_scale", Dtype::kBf16, {rows, columns / kGroup})};
    case ServedFormat::kFp4:
    case ServedFormat::kIdleEmbedding:
      break;
  }
  return {MakeInfo(name + ".weight", Dtype::kF4, {rows, columns}),
          MakeInfo(name + ".weight_scale", Dtype::kF8E8M0, {rows, columns / kGroup})};
}

uint64_t ColumnsOf(size_t matrix) {
  return matrix % kMatricesPerExpert == 2 ? kInner : kHidden;  // the third one leads back down
}

std::string NameOf(size_t matrix) {
  constexpr std::array<std::string_view, kMatricesPerExpert> kNames = {"gate", "up", "down"};
  const size_t expert = matrix / kMatricesPerExpert;
  return fmt::format("model.layers.{}.mlp.experts.{}.{}_proj", expert / kExpertsPerLayer,
                     expert % kExpertsPerLayer, kNames[matrix % kMatricesPerExpert]);
}

// Tensors 2i and 2i + 1 are matrix i's.
std::vector<TensorInfo> TensorsOf(ServedFormat format, size_t matrices) {
  std::vector<TensorInfo> tensors;
  for (size_t matrix = 0; matrix < matrices; ++matrix) {
    const uint64_t columns = ColumnsOf(matrix);
    for (TensorInfo& info :
         MatrixTensors(format, NameOf(matrix), kMatrixElements / columns, columns)) {
      tensors.push_back(std::move(info));
    }
  }
  return tensors;
}

Projected Project(ServedFormat format, const Bf16Matrix& matrix) {
  if (format == ServedFormat::kFp8) return ProjectFp8(matrix);
  if (format == ServedFormat::kInt4) return ProjectInt4(matrix);
  return ProjectFp4(matrix);
}

// The matrix's BF16 form at both steps.
std::array<std::vector<uint16_t>, kSteps> TrainMatrix(const ServedModelOptions& options,
                                                      std::span<const UpdateRates> rates,
                                                      size_t matrix) {
  std::array<std::vector<uint16_t>, kSteps> steps;
  std::vector<uint16_t> served(kSteps * kBlockElements);
  for (uint64_t block = 0; block < kMatrixElements / kBlockElements; ++block) {
    TrainBlock({options.seed, matrix, block}, kWeights, rates, options.warmup, served);
    for (size_t step = 0; step < kSteps; ++step) {
      const auto begin = served.begin() + static_cast<std::ptrdiff_t>(step * kBlockElements);
      steps[step].insert(steps[step].end(), begin, begin + kBlockElements);
    }
  }
  return steps;
}

void GenerateExperts(const ServedModelOptions& options, ThreadPool& pool) {
  const uint64_t matrix_bytes =
      options.format == ServedFormat::kFp8 ? kMatrixElements : kMatrixElements / 2;
  const uint64_t matrices = (options.bytes + matrix_bytes - 1) / matrix_bytes;
  const StepFiles files(options.out, TensorsOf(options.format, matrices));
  const std::vector<UpdateRates> rates = RatesOf(options);
  pool.ParallelFor(matrices, [&](size_t matrix) {
    const auto steps = TrainMatrix(options, rates, matrix);
    for (size_t step = 0; step < kSteps; ++step) {
      const Projected made = Project(options.format, {steps[step], ColumnsOf(matrix)});
      files.Write(step, 2 * matrix, 0, made.codes);
      files.Write(step, 2 * matrix + 1, 0, made.scales);
    }
  });
}

std::vector<bool> ActiveRows(uint64_t seed, uint64_t rows) {
  std::mt19937_64 random(seed);
  std::vector<bool> active;
  for (uint64_t row = 0; row < rows; ++row) active.push_back(random() % kRowsPerActiveRow == 0);
  return active;
}

void GenerateEmbedding(const ServedModelOptions& options, ThreadPool& pool) {
  constexpr uint64_t kBlockBytes = kBlockElements * sizeof(uint16_t);
  const uint64_t blocks = (options.bytes + kBlockBytes - 1) / kBlockBytes;
  const std::vector<bool> active = ActiveRows(options.seed, blocks * kBlockRows);
  const StepFiles files(options.out, {MakeInfo("model.embed_tokens.weight", Dtype::kBf16,
                                               {blocks * kBlockRows, kHidden})});
  const std::vector<UpdateRates> rates = RatesOf(options);
  pool.ParallelFor(blocks, [&](size_t block) {
    std::vector<uint16_t> served(kSteps * kBlockElements);
    TrainBlock({options.seed, 0, block}, kWeights, rates, options.warmup, served);
    const std::span<uint16_t> before = std::span(served).first(kBlockElements);
    const std::span<uint16_t> after = std::span(served).last(kBlockElements);
    for (uint64_t row = 0; row < kBlockRows; ++row) {
      if (active[block * kBlockRows + row]) continue;
      std::ranges::copy(before.subspan(row * kHidden, kHidden),
                        after.begin() + static_cast<std::ptrdiff_t>(row * kHidden));
    }
    files.Write(0, 0, block * kBlockBytes, std::as_bytes(before));
    files.Write(1, 0, block * kBlockBytes, std::as_bytes(after));
  });
}

}  // namespace

void GenerateServedModel(const ServedModelOptions& options, ThreadPool& pool) {
  if (options.format == ServedFormat::kIdleEmbedding) return GenerateEmbedding(options, pool);
  GenerateExperts(options, pool);
}

}  // namespace isthmus::bench
