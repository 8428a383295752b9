#include "isthmus/tensor/checkpoint_write.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model.h"
#include "tests/support/temp_dir.h"

namespace isthmus::tensor {
namespace {

using testing::ExpectError;
using testing::Model;
using testing::ModelTensor;
using testing::TempDir;

class CheckpointWriteTest : public ::testing::Test {
 protected:
  CheckpointWriteTest() {
    model_.Write(dir_ / "files");
    for (const ModelTensor& tensor : model_.tensors) {
      data_[tensor.name] = tensor.data;
      infos_.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
    }
  }

  TempDir dir_;
  std::mt19937 random_{1};
  Model model_ = testing::SmallModel(&random_);
  Checkpoint::MemoryTensors data_;
  std::vector<TensorInfo> infos_;
  ThreadPool pool_{2};
};

TEST_F(CheckpointWriteTest, WhatIsInMemoryIsWrittenAsTheFilesThatItDescribes) {
  const Checkpoint files = Checkpoint::Open(dir_ / "files");
  Model zeros = model_;
  for (ModelTensor& tensor : zeros.tensors) {
    tensor.data.assign(tensor.data.size(), std::byte{0});
  }
  zeros.Write(dir_ / "layout");
  const Checkpoint memory = Checkpoint::OpenWithData(dir_ / "layout", data_);
  EXPECT_TRUE(memory.in_memory());
  EXPECT_EQ(DigestCheckpoint(memory, pool_), DigestCheckpoint(files, pool_));
  WriteCheckpoint(memory, dir_ / "written", NoProgress());
  EXPECT_EQ(DigestCheckpoint(Checkpoint::Open(dir_ / "written"), pool_),
            DigestCheckpoint(files, pool_));
}

TEST_F(CheckpointWriteTest, EveryTensorMustBeThereInItsSizeAndNoOther) {
  auto less = data_;
  less.erase("fp8");
  ExpectError(
      ErrorCode::kInvalid, [&] { Checkpoint::OpenWithData(dir_ / "files", less); },
      "tensor fp8 is missing");
  auto more = data_;
  more["other"] = {};
  ExpectError(
      ErrorCode::kInvalid, [&] { Checkpoint::OpenWithData(dir_ / "files", more); },
      "it has no tensor other");
  auto shorter = data_;
  shorter["fp8"] = shorter["fp8"].first(9999);
  ExpectError(
      ErrorCode::kInvalid, [&] { Checkpoint::OpenWithData(dir_ / "files", shorter); },
      "tensor fp8 has 9999 bytes, expected 10000");
}

TEST_F(CheckpointWriteTest, AnEmptyCheckpointHasTheTensorsInShardsOfTheGivenSize) {
  WriteEmptyCheckpoint(infos_, 11'000, dir_ / "empty");
  const Checkpoint empty = Checkpoint::Open(dir_ / "empty");
  ASSERT_EQ(empty.tensors().size(), infos_.size());
  for (const TensorInfo& info : infos_) {
    const Checkpoint::Tensor* tensor = empty.Find(info.name);
    ASSERT_NE(tensor, nullptr) << info.name;
    EXPECT_EQ(tensor->info.dtype, info.dtype);
    EXPECT_EQ(tensor->info.shape, info.shape);
  }
  // codes (1024 bytes) | embed, too large for any | empty, fp8 (10000), positions (264) | ...
  EXPECT_EQ(empty.shards().size(), 3U);
  EXPECT_EQ(empty.shards()[0].file, "model-00001-of-00003.safetensors");
}

TEST_F(CheckpointWriteTest, TheLayoutDependsOnNoOrder) {
  WriteEmptyCheckpoint(infos_, 11'000, dir_ / "a");
  std::ranges::reverse(infos_);
  WriteEmptyCheckpoint(infos_, 11'000, dir_ / "b");
  EXPECT_EQ(DigestCheckpoint(Checkpoint::Open(dir_ / "a"), pool_),
            DigestCheckpoint(Checkpoint::Open(dir_ / "b"), pool_));
}

TEST_F(CheckpointWriteTest, OneShardNeedsNoIndex) {
  WriteEmptyCheckpoint(infos_, uint64_t{1} << 40, dir_ / "one");
  const Checkpoint one = Checkpoint::Open(dir_ / "one");
  EXPECT_EQ(one.shards()[0].file, "model.safetensors");
  EXPECT_TRUE(one.other_files().empty());
}

TEST_F(CheckpointWriteTest, ANameTwiceIsRefused) {
  infos_.push_back(infos_.front());
  ExpectError(ErrorCode::kInvalid, [&] { WriteEmptyCheckpoint(infos_, 1 << 30, dir_ / "twice"); });
}

}  // namespace
}  // namespace isthmus::tensor
