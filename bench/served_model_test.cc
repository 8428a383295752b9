#include "bench/served_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/entropy.h"
#include "isthmus/tensor/checkpoint.h"
#include "tests/support/temp_dir.h"

namespace isthmus::bench {
namespace {

using tensor::Checkpoint;
using tensor::Dtype;
using testing::TempDir;

struct Steps {
  Checkpoint before;
  Checkpoint after;
};

// One matrix, or one block of the embedding; few updates and large ones.
Steps Generate(const fs::path& out, ServedFormat format) {
  ThreadPool pool(2);
  GenerateServedModel(
      {.out = out, .format = format, .bytes = 1, .learning_rate = 1e-5, .warmup = 3}, pool);
  return {Checkpoint::Open(out / "step-0"), Checkpoint::Open(out / "step-1")};
}

ChangeCounts CountChanges(const Steps& steps) {
  ChangeCounts counts;
  for (const Checkpoint::Tensor& tensor : steps.after.tensors()) {
    counts.Add(tensor.info.dtype, steps.before.Data(*steps.before.Find(tensor.info.name)),
               steps.after.Data(tensor));
  }
  return counts;
}

void ExpectFewChanges(const ChangeCounts& counts, double most) {
  EXPECT_GT(counts.changed(), 0U);
  EXPECT_LT(static_cast<double>(counts.changed()), most * static_cast<double>(counts.elements()));
}

TEST(ServedModel, Fp8HasCodesAndScales) {
  const TempDir dir;
  const Steps steps = Generate(dir.path(), ServedFormat::kFp8);
  ASSERT_EQ(steps.after.tensors().size(), 2U);
  EXPECT_EQ(steps.after.tensors()[0].info.dtype, Dtype::kF8E4M3);
  EXPECT_EQ(steps.after.tensors()[0].info.shape, (tensor::Shape{1408, 2048}));
  EXPECT_EQ(steps.after.tensors()[1].info.shape, (tensor::Shape{11, 16}));
  ExpectFewChanges(CountChanges(steps), 0.05);
}

TEST(ServedModel, FourBitCodesArePacked) {
  for (const auto& [format, dtype] :
       {std::pair(ServedFormat::kInt4, Dtype::kI32), std::pair(ServedFormat::kFp4, Dtype::kF4)}) {
    const TempDir dir;
    const Steps steps = Generate(dir.path(), format);
    EXPECT_EQ(steps.after.tensors()[0].info.dtype, dtype);
    EXPECT_EQ(steps.after.tensors()[0].info.bytes(), 1408U * 2048 / 2);
    ExpectFewChanges(CountChanges(steps), 0.005);
  }
}

TEST(ServedModel, MostRowsOfTheEmbeddingAreIdle) {
  const TempDir dir;
  const Steps steps = Generate(dir.path(), ServedFormat::kIdleEmbedding);
  constexpr size_t kRowBytes = 2048 * 2;
  const ByteSpan before = steps.before.Data(steps.before.tensors()[0]);
  const ByteSpan after = steps.after.Data(steps.after.tensors()[0]);
  size_t active = 0;
  for (size_t at = 0; at < after.size(); at += kRowBytes) {
    active +=
        std::ranges::equal(before.subspan(at, kRowBytes), after.subspan(at, kRowBytes)) ? 0 : 1;
  }
  EXPECT_GT(active, 0U);
  EXPECT_LT(active, 10U);  // of 32
}

}  // namespace
}  // namespace isthmus::bench
