// WhyNoPatch, of diff.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "isthmus/codec/diff.h"
#include "tests/support/model.h"
#include "tests/support/temp_dir.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::Model;
using ::isthmus::testing::SmallModel;
using ::isthmus::testing::TempDir;
using tensor::Checkpoint;

class WhyNoPatchTest : public ::testing::Test {
 protected:
  WhyNoPatchTest() : model_(SmallModel(&random_)) { model_.Write(dir_ / "old"); }

  std::string WhyNot() {
    model_.Write(dir_ / "new");
    return WhyNoPatch(Checkpoint::Open(dir_ / "old"), Checkpoint::Open(dir_ / "new")).value_or("");
  }

  TempDir dir_;
  std::mt19937 random_{1};  // the names and shapes matter, not the numbers
  Model model_;
};

TEST_F(WhyNoPatchTest, BetweenStepsOfOneModelThereIsNone) {
  model_.Step(100, &random_);
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(WhyNoPatchTest, AFileThatBecomesAFolderIsNamedAsTheReason) {
  model_.files["sub"] = "a file now";
  model_.files.erase("sub/vocab.txt");
  EXPECT_EQ(WhyNot(), "sub is a file in one and a folder in the other");
}

TEST_F(WhyNoPatchTest, ALostTensorIsNamedAsTheReason) {
  std::erase_if(model_.tensors, [](const auto& tensor) { return tensor.name == "fp8"; });
  EXPECT_EQ(WhyNot(), "tensor fp8 is gone");
}

TEST_F(WhyNoPatchTest, ANewTensorIsNamedAsTheReason) {
  model_.Add("extra", tensor::Dtype::kU8, {4}, "model-00002-of-00002.safetensors", &random_);
  EXPECT_EQ(WhyNot(), "tensor extra is new");
}

TEST_F(WhyNoPatchTest, AnotherShapeOrDtypeIsNamedAsTheReason) {
  model_.Find("fp8").shape = {50, 200};
  EXPECT_EQ(WhyNot(), "tensor fp8 changed shape");
  model_.Find("fp8").shape = {100, 100};
  model_.Find("fp8").dtype = tensor::Dtype::kF8E5M2;
  EXPECT_EQ(WhyNot(), "tensor fp8 changed dtype from F8_E4M3 to F8_E5M2");
}

TEST_F(WhyNoPatchTest, AnotherShardOrHeaderLengthIsNamedAsTheReason) {
  model_.metadata = {{"format", "pt"}, {"a key that is rather long", "and its value"}};
  EXPECT_THAT(WhyNot(), ::testing::HasSubstr("changed its length"));
}

}  // namespace
}  // namespace isthmus::codec
