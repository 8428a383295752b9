#include "bench/modelgen.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>

#include "bench/modelgen_kernel.h"
#include "bench/modelgen_layout.h"
#include "isthmus/base/error.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::bench {
namespace {

static_assert(kHiddenStep % kLaneMultiple == 0, "every tensor is a multiple of a SIMD vector");

constexpr InitialWeights kMatrix = {0.0f, 0.025f};
constexpr InitialWeights kNorm = {1.0f, 0.1f};

// A thread holds one block of every step: 512 MiB.
constexpr size_t kMaxSteps = 4096;
// Far beyond what anyone waits for: six minutes of a core for each MiB of the model.
constexpr size_t kMaxWarmup = 1'000'000;

void CheckOptions(const ModelgenOptions& options) {
  if (options.steps == 0 || options.steps > kMaxSteps) {
    Throw(ErrorCode::kInvalid, "generate model: {} steps, 1 to {} allowed", options.steps,
          kMaxSteps);
  }
  if (options.warmup > kMaxWarmup) {
    Throw(ErrorCode::kInvalid, "generate model: {} warm-up updates, at most {} allowed",
          options.warmup, kMaxWarmup);
  }
  if (options.learning_rate < 0 || !std::isfinite(options.learning_rate)) {
    Throw(ErrorCode::kInvalid, "generate model: learning rate {}, expected 0 or a positive number",
          options.learning_rate);
  }
}

void CheckEmpty(const fs::path& out) {
  std::error_code error;
  const fs::file_type type = fs::status(out, error).type();
  if (type == fs::file_type::not_found) return;
  if (type != fs::file_type::directory || !fs::is_empty(out, error)) {
    Throw(ErrorCode::kConflict,
          "generate model in {}: it exists, expected no or an empty directory", out.string());
  }
}

// So that blocks may be written in any order, and a full disk shows at once.
void Allocate(const File& file, uint64_t bytes) {
  const int error_number = ::posix_fallocate(file.fd(), 0, static_cast<off_t>(bytes));
  if (error_number != 0) ThrowErrno(error_number, "allocate", file.path().string());
}

void WriteText(const fs::path& path, const std::string& text) {
  File::CreateNew(path).Write(AsBytes(text));
}

void CreateStep(const ModelLayout& layout, const fs::path& directory) {
  CreateDirectories(directory);
  WriteText(directory / "config.json", ConfigJson(layout.shape));
  for (const ModelShard& shard : layout.shards) {
    File file = File::CreateNew(directory / shard.file);
    Allocate(file, shard.bytes);
    file.WriteAt(0, shard.header);
  }
}

struct Block {
  size_t tensor = 0;
  uint64_t number = 0;  // in the tensor

  uint64_t first() const { return number * kBlockElements; }
};

std::vector<Block> BlocksOf(const ModelLayout& layout) {
  std::vector<Block> blocks;
  for (size_t tensor = 0; tensor < layout.tensors.size(); ++tensor) {
    for (Block block = {tensor}; block.first() < layout.tensors[tensor].elements();
         ++block.number) {
      blocks.push_back(block);
    }
  }
  return blocks;
}

uint64_t CountChanged(std::span<const uint16_t> before, std::span<const uint16_t> after) {
  uint64_t changed = 0;
  for (size_t i = 0; i < after.size(); ++i) changed += before[i] != after[i] ? 1 : 0;
  return changed;
}

// Trains blocks and writes them to all steps. Thread-safe.
class Generator {
 public:
  Generator(const ModelgenOptions& options, const ModelLayout& layout)
      : options_(options),
        layout_(layout),
        rates_(AdamRates(options.learning_rate, options.warmup + options.steps - 1)),
        changed_(options.steps) {}

  void Generate(const Block& block) {
    const ModelTensor& tensor = layout_.tensors[block.tensor];
    const size_t count =
        static_cast<size_t>(std::min<uint64_t>(kBlockElements, tensor.elements() - block.first()));
    std::vector<uint16_t> served(options_.steps * count);
    TrainBlock({options_.seed, block.tensor, block.number}, tensor.is_norm ? kNorm : kMatrix,
               rates_, options_.warmup, served);
    for (size_t step = 0; step < options_.steps; ++step) {
      const auto now = std::span(served).subspan(step * count, count);
      if (step > 0) changed_[step] += CountChanged({now.data() - count, count}, now);
      WriteBlock(step, tensor, block, now);
    }
  }

  GeneratedStep Report(size_t step) const {
    return {Directory(step), layout_.file_bytes, layout_.shape.parameters(), changed_[step]};
  }

  fs::path Directory(size_t step) const { return options_.out / fmt::format("step-{}", step); }

 private:
  // Opened for each block: steps times shards can be more files than a process may hold open.
  void WriteBlock(size_t step, const ModelTensor& tensor, const Block& block,
                  std::span<const uint16_t> elements) const {
    File file = File::OpenReadWrite(Directory(step) / layout_.shards[tensor.shard].file);
    file.WriteAt(tensor.info.begin + block.first() * sizeof(uint16_t), std::as_bytes(elements));
  }

  const ModelgenOptions& options_;
  const ModelLayout& layout_;
  const std::vector<UpdateRates> rates_;
  std::vector<std::atomic<uint64_t>> changed_;  // per step
};

}  // namespace

std::vector<GeneratedStep> GenerateModel(const ModelgenOptions& options, ThreadPool& pool) {
  CheckOptions(options);
  CheckEmpty(options.out);
  const ModelLayout layout = LayOutModel(options.bytes);
  Generator generator(options, layout);
  for (size_t step = 0; step < options.steps; ++step) CreateStep(layout, generator.Directory(step));
  const std::vector<Block> blocks = BlocksOf(layout);
  pool.ParallelFor(blocks.size(), [&](size_t i) { generator.Generate(blocks[i]); });
  std::vector<GeneratedStep> steps;
  for (size_t step = 0; step < options.steps; ++step) {
    WriteText(generator.Directory(step) / tensor::kIndexFile, IndexJson(layout));
    steps.push_back(generator.Report(step));
  }
  return steps;
}

}  // namespace isthmus::bench
