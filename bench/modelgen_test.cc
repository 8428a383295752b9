#include "bench/modelgen.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "bench/modelgen_kernel.h"
#include "bench/modelgen_layout.h"
#include "isthmus/tensor/checkpoint.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::bench {
namespace {

using tensor::Checkpoint;
using testing::ExpectError;
using testing::TempDir;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Few warm-up updates, so that unoptimised builds are quick too.
ModelgenOptions SmallModel(const fs::path& out) {
  return {.out = out, .bytes = 4 * kMiB, .steps = 3, .seed = 7, .warmup = 5};
}

std::vector<GeneratedStep> Generate(const ModelgenOptions& options, size_t threads = 2) {
  ThreadPool pool(threads);
  return GenerateModel(options, pool);
}

std::vector<fs::path> FilesBelow(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(directory));
  }
  std::ranges::sort(files);
  return files;
}

void ExpectSameFiles(const fs::path& a, const fs::path& b) {
  ASSERT_EQ(FilesBelow(a), FilesBelow(b));
  for (const fs::path& file : FilesBelow(a)) {
    EXPECT_TRUE(ReadFile(a / file, 8 * kMiB) == ReadFile(b / file, 8 * kMiB)) << file;
  }
}

uint64_t CountDifferent(const Checkpoint& a, const Checkpoint& b) {
  uint64_t different = 0;
  for (const Checkpoint::Tensor& tensor : a.tensors()) {
    const std::byte* before = a.Data(tensor).data();
    const std::byte* after = b.Data(*b.Find(tensor.info.name)).data();
    for (size_t at = 0; at < tensor.info.bytes(); at += 2) {
      different += LoadLe<uint16_t>(before + at) != LoadLe<uint16_t>(after + at) ? 1 : 0;
    }
  }
  return different;
}

TEST(Modelgen, FilesDoNotDependOnTheThreads) {
  const TempDir temp;
  Generate(SmallModel(temp / "one"), 1);
  Generate(SmallModel(temp / "two"), 2);
  ExpectSameFiles(temp / "one", temp / "two");
}

TEST(Modelgen, AnotherSeedGivesOtherWeights) {
  const TempDir temp;
  ModelgenOptions options = SmallModel(temp / "seven");
  options.steps = 1;
  Generate(options);
  options.out = temp / "eight";
  options.seed = 8;
  Generate(options);
  const Checkpoint seven = Checkpoint::Open(temp / "seven" / "step-0");
  const Checkpoint eight = Checkpoint::Open(temp / "eight" / "step-0");
  EXPECT_GT(CountDifferent(seven, eight), seven.tensor_bytes() / 2 * 9 / 10);
}

TEST(Modelgen, StepsDifferAsReportedAndSparsely) {
  const TempDir temp;
  const std::vector<GeneratedStep> steps = Generate(SmallModel(temp.path()));
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].changed, 0u);
  for (size_t i = 1; i < steps.size(); ++i) {
    const Checkpoint before = Checkpoint::Open(steps[i - 1].directory);
    const Checkpoint after = Checkpoint::Open(steps[i].directory);
    EXPECT_EQ(steps[i].changed, CountDifferent(before, after));
    EXPECT_GT(steps[i].changed, steps[i].elements / 2000);
    EXPECT_LT(steps[i].changed, steps[i].elements / 20);
  }
}

TEST(Modelgen, FewerStepsAreThePrefixOfMore) {
  const TempDir temp;
  ModelgenOptions options = SmallModel(temp / "all");
  Generate(options);
  options.out = temp / "last";
  options.steps = 1;
  options.warmup += 2;
  Generate(options);
  ExpectSameFiles(temp / "all" / "step-2", temp / "last" / "step-0");
}

TEST(Modelgen, AnOutputThatHoldsSomethingIsRefusedAndLeftAlone) {
  const TempDir temp;
  const fs::path file = temp.Write("file", "content");
  ExpectError(
      ErrorCode::kConflict, [&] { Generate(SmallModel(temp.path())); }, temp.path().string());
  ExpectError(
      ErrorCode::kConflict, [&] { Generate(SmallModel(file)); }, file.string());
  EXPECT_EQ(FilesBelow(temp.path()), std::vector<fs::path>{"file"});
}

TEST(Modelgen, ImpossibleOptionsAreRefused) {
  const TempDir temp;
  ModelgenOptions options = SmallModel(temp.path());
  options.bytes = kMinModelBytes - 1;
  ExpectError(
      ErrorCode::kInvalid, [&] { Generate(options); }, "2097151 bytes", "2097152");
  options = SmallModel(temp.path());
  options.steps = 0;
  ExpectError(
      ErrorCode::kInvalid, [&] { Generate(options); }, "0 steps");
  options = SmallModel(temp.path());
  options.warmup = SIZE_MAX;
  ExpectError(
      ErrorCode::kInvalid, [&] { Generate(options); }, "warm-up");
  options = SmallModel(temp.path());
  options.learning_rate = -1;
  ExpectError(
      ErrorCode::kInvalid, [&] { Generate(options); }, "learning rate -1");
}

TEST(ModelgenLayout, ModelsOfAllSizesComeWithinARowOfTheEmbedding) {
  for (uint64_t bytes : {2 * kMiB, 3 * kMiB, 4 * kMiB, 9 * kMiB, 64 * kMiB, 1024 * kMiB,
                         123'456'789 * kMiB / 1000, 2048 * 1024 * kMiB}) {
    const ModelShape shape = ShapeFor(bytes);
    EXPECT_LE(shape.parameters() * 2, bytes);
    EXPECT_GT((shape.parameters() + shape.hidden) * 2, bytes);
    EXPECT_GE(shape.vocabulary, 16 * shape.hidden);
    EXPECT_GE(shape.layers, 1u);
  }
}

TEST(ModelgenLayout, AGibibyteHasSeveralShardsWithinTheLimit) {
  const ModelLayout layout = LayOutModel(1024 * kMiB);
  EXPECT_GE(layout.shards.size(), 4u);
  EXPECT_LE(layout.shards.size(), 6u);
  for (const ModelShard& shard : layout.shards) EXPECT_LE(shard.bytes, 257 * kMiB);
}

// AdamW in double precision, for the oracle below.
struct ReferenceAdam {
  double m = 0;
  double v = 0;
  size_t t = 0;

  double Step(double gradient) {
    ++t;
    m = 0.9 * m + 0.1 * gradient;
    v = 0.999 * v + 0.001 * gradient * gradient;
    const double m_hat = m / (1 - std::pow(0.9, static_cast<double>(t)));
    const double v_hat = v / (1 - std::pow(0.999, static_cast<double>(t)));
    return m_hat / (std::sqrt(v_hat) + 1e-8);
  }
};

double FromBf16(uint16_t bits) {
  return double{std::bit_cast<float>(static_cast<uint32_t>(bits) << 16)};
}

// Weights that begin at 0 show the update itself. The first one is the learning rate with the
// gradient's sign, but for the few gradients that are not large against epsilon.
TEST(ModelgenKernel, TheFirstUpdateIsTheLearningRate) {
  std::vector<uint16_t> served(2 * kBlockElements);
  TrainBlock({7, 0, 0}, {0, 0}, AdamRates(0.5, 1), 0, served);
  size_t full = 0;
  size_t positive = 0;
  for (size_t i = 0; i < kBlockElements; ++i) {
    EXPECT_EQ(served[i], 0);
    const double update = FromBf16(served[kBlockElements + i]);
    EXPECT_LE(std::abs(update), 0.5);
    full += std::abs(update) > 0.49 ? 1 : 0;
    positive += update > 0 ? 1 : 0;
  }
  EXPECT_GT(full, kBlockElements * 9 / 10);
  EXPECT_NEAR(static_cast<double>(positive) / kBlockElements, 0.5, 0.02);
}

TEST(ModelgenKernel, RatesCorrectTheBiasOfTheMoments) {
  const std::vector<UpdateRates> rates = AdamRates(2e-6, 30);
  for (size_t t = 1; t <= rates.size(); ++t) {
    ReferenceAdam adam;
    double reference = 0;
    for (size_t i = 0; i < t; ++i) reference = adam.Step(1e-3);
    const double m = adam.m * double{rates[t - 1].step_size};
    const double v = adam.v * double{rates[t - 1].second_correction};
    EXPECT_NEAR(m / (std::sqrt(v) + 1e-8), 2e-6 * reference, 1e-12);
  }
}

TEST(ModelgenKernel, InitialWeightsHaveTheirMeanAndDeviation) {
  std::vector<uint16_t> served(kBlockElements);
  TrainBlock({7, 1, 2}, {1.0f, 0.1f}, {}, 0, served);
  double sum = 0;
  double squares = 0;
  for (uint16_t bits : served) {
    sum += FromBf16(bits);
    squares += FromBf16(bits) * FromBf16(bits);
  }
  const double mean = sum / kBlockElements;
  EXPECT_NEAR(mean, 1.0, 0.002);
  EXPECT_NEAR(std::sqrt(squares / kBlockElements - mean * mean), 0.1, 0.002);
}

TEST(ModelgenKernel, EverySimdTargetGivesTheSameBits) {
  const auto train = [](int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    std::vector<uint16_t> served(3 * kBlockElements);
    TrainBlock({7, 3, 5}, {0, 0.025f}, AdamRates(1e-6, 12), 10, served);
    return served;
  };
  const std::vector<uint16_t> best = train(0);
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    EXPECT_TRUE(train(target) == best) << hwy::TargetName(target);
  }
  train(0);
}

}  // namespace
}  // namespace isthmus::bench
