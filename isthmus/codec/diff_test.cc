#include "isthmus/codec/diff.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "isthmus/codec/chain.h"
#include "isthmus/codec/chunk_scan.h"
#include "isthmus/tensor/position_sum.h"
#include "tests/support/errors.h"
#include "tests/support/model.h"
#include "tests/support/temp_dir.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::ExpectError;
using ::isthmus::testing::Model;
using ::isthmus::testing::SmallModel;
using ::isthmus::testing::TempDir;
using tensor::Checkpoint;

class DiffTest : public ::testing::Test {
 protected:
  DiffTest() : seed_(std::random_device()()), random_(seed_), model_(SmallModel(&random_)) {
    RecordProperty("seed", static_cast<int>(seed_));
    model_.Write(dir_ / "old");
  }

  // Compares old with new; a part ends with the chunk that fills it to `part_bytes`.
  DiffResult Diff(EncodingPolicy policy = {}, uint64_t part_bytes = uint64_t{1} << 30) {
    parts_.clear();
    bytes_.clear();
    PartBuilder builder;
    const auto flush = [&] {
      bytes_.emplace_back();
      builder.Finish(std::nullopt, [&](ByteSpan piece) {
        bytes_.back().insert(bytes_.back().end(), piece.begin(), piece.end());
      });
    };
    const Checkpoint base = Checkpoint::Open(dir_ / "old");
    const Checkpoint next = Checkpoint::Open(dir_ / "new");
    DiffResult result =
        DiffCheckpoints(base, next, policy, pool_, NoProgress(), [&](ChunkDiff change) {
          AddChunkDiff(std::move(change), &builder);
          if (builder.payload_bytes() >= part_bytes) flush();
        });
    AddFileChanges(next, result.base, result.next, &builder);
    flush();
    for (const ByteVector& bytes : bytes_) parts_.push_back(Part::Open(bytes));
    return result;
  }

  Patch ThePatch() const {
    Patch patch;
    for (const Part& part : parts_) patch.push_back(&part);
    return patch;
  }

  // Folds the patch into the old chunks and compares with the new ones.
  void ExpectPatchLeadsToNew(const DiffResult& result) {
    const Checkpoint base = Checkpoint::Open(dir_ / "old");
    const Checkpoint next = Checkpoint::Open(dir_ / "new");
    const Chain chain(result.base, {ThePatch()});
    for (size_t c = 0; c < chain.layout().chunks().size(); ++c) {
      ByteVector old_scratch;
      ByteVector new_scratch;
      const ByteSpan before = ChunkBytes(base, chain.layout(), c, &old_scratch);
      ByteVector data(before.begin(), before.end());
      chain.FoldChunk(c, data);
      EXPECT_EQ(AsText(data), AsText(ChunkBytes(next, chain.layout(), c, &new_scratch)));
    }
    ExpectSumsAndTables(result, chain, base, next);
  }

  void ExpectSumsAndTables(const DiffResult& result, const Chain& chain, const Checkpoint& base,
                           const Checkpoint& next) {
    EXPECT_EQ(result.base, tensor::DigestCheckpoint(base, pool_));
    EXPECT_EQ(result.next, tensor::DigestCheckpoint(next, pool_));
    tensor::VersionTable expected = result.next;
    for (size_t i = 0; i < expected.tensors.size(); ++i) {
      expected.tensors[i].digest = result.base.tensors[i].digest;
      const size_t unit_bytes = tensor::UnitBytes(expected.tensors[i].dtype);
      EXPECT_EQ(chain.SumChange(i),
                tensor::PositionSum(next.Data(next.tensors()[i]), unit_bytes, 0) -
                    tensor::PositionSum(base.Data(base.tensors()[i]), unit_bytes, 0));
      EXPECT_EQ(chain.Names(i), result.base.tensors[i] != result.next.tensors[i]);
    }
    EXPECT_EQ(chain.outline(), expected);
  }

  TempDir dir_;
  unsigned seed_;
  std::mt19937 random_;
  Model model_;
  ThreadPool pool_{2};
  std::vector<ByteVector> bytes_;
  std::vector<Part> parts_;
};

TEST_F(DiffTest, EveryPolicyGivesTheExactNewCheckpointAtEveryDensity) {
  for (const unsigned one_in : {1U, 5U, 1000U}) {
    model_.Step(one_in, &random_);
    model_.Write(dir_ / "new");
    for (const EncodingPolicy policy :
         {EncodingPolicy(), EncodingPolicy(Encoding::kRaw), EncodingPolicy(Encoding::kXor),
          EncodingPolicy(Encoding::kDirect), EncodingPolicy(Encoding::kContext)}) {
      ExpectPatchLeadsToNew(Diff(policy));
    }
  }
}

TEST_F(DiffTest, EqualCheckpointsDifferInNothing) {
  model_.Write(dir_ / "new");
  const DiffResult result = Diff();
  EXPECT_EQ(result.changed, 0U);
  EXPECT_EQ(result.base, result.next);
  EXPECT_TRUE(parts_.at(0).tensors().empty());
  EXPECT_TRUE(parts_.at(0).files().empty());
}

TEST_F(DiffTest, CountsUnitsWhoseBitsDiffer) {
  model_.Find("embed").data[0] ^= std::byte{1};
  model_.Find("embed").data[1] ^= std::byte{1};  // the same unit
  model_.Find("fp8").data[7] ^= std::byte{0x80};
  model_.Find("positions").data[15] ^= std::byte{1};
  model_.Write(dir_ / "new");
  const DiffResult result = Diff();
  EXPECT_EQ(result.changed, 3U);
  EXPECT_EQ(result.tensors_changed, 3U);
  EXPECT_EQ(result.units, 1200U * 900 + 64 * 32 / 2 + 100 * 100 + 40 + 2 * 33 + 1);
}

TEST_F(DiffTest, ChunksOfOneTensorMayLieInSeveralParts) {
  model_.Step(3, &random_);
  model_.Write(dir_ / "new");
  const DiffResult result = Diff(Encoding::kDirect, 1000);
  EXPECT_GT(parts_.size(), 3U);
  EXPECT_EQ(parts_[0].tensors().at(0).name, parts_[1].tensors().at(0).name);
  ExpectPatchLeadsToNew(result);
}

TEST_F(DiffTest, TheCheapestEncodingIsChosenForEachChunk) {
  model_.Find("embed").data[4] ^= std::byte{1};
  for (std::byte& byte : model_.Find("fp8").data) byte = static_cast<std::byte>(random_());
  model_.Write(dir_ / "new");
  const DiffResult result = Diff();
  const std::map<std::string, uint64_t> expected = {{"direct", 1}, {"raw", 1}};
  EXPECT_EQ(result.encodings, expected);
  ASSERT_EQ(parts_.at(0).chunks().size(), 2U);  // the chunks of other tensors are not there
  EXPECT_EQ(parts_.at(0).chunks()[0].encoding, Encoding::kDirect);
  EXPECT_EQ(parts_.at(0).chunks()[1].encoding, Encoding::kRaw);
}

TEST_F(DiffTest, ATensorThatBecomesZeroTakesAlmostNothing) {
  model_.Find("embed").data.assign(model_.Find("embed").data.size(), std::byte{0});
  model_.Write(dir_ / "new");
  ExpectPatchLeadsToNew(Diff());
  EXPECT_LT(bytes_.at(0).size(), 1000U);
}

TEST_F(DiffTest, UnchangedTensorsHaveNoEntry) {
  model_.Find("positions").data[3] ^= std::byte{1};
  model_.Write(dir_ / "new");
  ExpectPatchLeadsToNew(Diff());
  ASSERT_EQ(parts_.at(0).tensors().size(), 1U);
  EXPECT_EQ(parts_.at(0).tensors()[0].name, "positions");
  EXPECT_EQ(parts_.at(0).tensors()[0].changed, 1U);
}

TEST_F(DiffTest, APatchOfRandomChangeIsNotMuchLargerThanTheData) {
  for (auto& tensor : model_.tensors) {
    for (std::byte& byte : tensor.data) byte = static_cast<std::byte>(random_());
  }
  model_.Write(dir_ / "new");
  for (const EncodingPolicy policy : {EncodingPolicy(), EncodingPolicy(Encoding::kDirect)}) {
    ExpectPatchLeadsToNew(Diff(policy));
    const double data_bytes = static_cast<double>(Checkpoint::Open(dir_ / "new").tensor_bytes());
    EXPECT_LT(static_cast<double>(bytes_.at(0).size()), 1.01 * data_bytes + 2000);
  }
}

TEST_F(DiffTest, FilesThatChangedCameOrWentTravelInThePatch) {
  model_.files = {{"config.json", "{\"changed\":true}"}, {"new/file.txt", "new"}};
  model_.metadata = {{"format", "np"}};  // as long as before: headers are replaced
  model_.Write(dir_ / "new");
  const DiffResult result = Diff();
  ExpectPatchLeadsToNew(result);
  std::map<std::string, FileKind> kinds;
  for (const FileEntry& file : parts_.at(0).files()) kinds[file.path] = file.kind;
  EXPECT_EQ(kinds, (std::map<std::string, FileKind>{
                       {"config.json", FileKind::kContent},
                       {"new/file.txt", FileKind::kContent},
                       {"sub/vocab.txt", FileKind::kRemoved},
                       {"model-00001-of-00002.safetensors", FileKind::kShardHeader},
                       {"model-00002-of-00002.safetensors", FileKind::kShardHeader}}));
}

TEST_F(DiffTest, ManyTinyTensorsShareAChunkAndAModel) {
  Model old_model;
  for (int i = 0; i < 1000; ++i) {
    old_model.Add("model.layers." + std::to_string(i) + ".norm.weight", tensor::Dtype::kBf16, {100},
                  "model-00001-of-00001.safetensors", &random_);
  }
  fs::remove_all(dir_ / "old");
  old_model.Write(dir_ / "old");
  for (auto& tensor : old_model.tensors) tensor.data[2 * (random_() % 100)] ^= std::byte{1};
  old_model.Write(dir_ / "new");
  const DiffResult result = Diff();
  ExpectPatchLeadsToNew(result);
  EXPECT_EQ(result.tensors_changed, 1000U);
  EXPECT_EQ(parts_.at(0).chunks().size(), 1U);
  EXPECT_EQ(parts_.at(0).models().size(), 1U);
  EXPECT_LT(bytes_.at(0).size(), 1000U * 40);
}

TEST_F(DiffTest, SquashedPatchesAreTheDiffOfFirstAndLast) {
  model_.files = {{"config.json", "{}"}, {"came", "and went"}};
  model_.Step(300, &random_);
  model_.Write(dir_ / "new");
  Diff();
  const std::vector<ByteVector> first_bytes = std::exchange(bytes_, {});
  const Part first = Part::Open(first_bytes.at(0));
  fs::rename(dir_ / "old", dir_ / "oldest");
  fs::rename(dir_ / "new", dir_ / "old");
  model_.files = {{"config.json", "{\"last\":1}"}, {"stays", "new"}};
  model_.Step(300, &random_);
  model_.Write(dir_ / "new");
  Diff();
  const std::vector<ByteVector> second_bytes = std::exchange(bytes_, {});
  const Part second = Part::Open(second_bytes.at(0));
  fs::remove_all(dir_ / "old");
  fs::rename(dir_ / "oldest", dir_ / "old");
  const DiffResult expected = Diff();

  PartBuilder builder;
  const DiffResult squashed = SquashPatches(
      Checkpoint::Open(dir_ / "old"), {{&first}, {&second}}, std::nullopt, pool_, NoProgress(),
      [&builder](ChunkDiff change) { AddChunkDiff(std::move(change), &builder); }, &builder);
  ByteVector bytes;
  builder.Finish(std::nullopt, [&bytes](ByteSpan piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  EXPECT_EQ(bytes, bytes_.at(0));
  EXPECT_EQ(squashed.base, expected.base);
  EXPECT_EQ(squashed.next, expected.next);
}

TEST_F(DiffTest, ComparingWhatNoPatchCanLeadToIsRefused) {
  std::erase_if(model_.tensors, [](const auto& tensor) { return tensor.name == "fp8"; });
  model_.Write(dir_ / "new");
  ExpectError(
      ErrorCode::kInvalid, [&] { Diff(); }, "fp8 is gone");
}

TEST_F(DiffTest, ATensorThatTheBaseLacksIsRefused) {
  model_.Step(10, &random_);
  model_.Write(dir_ / "new");
  tensor::VersionTable base = Diff().base;
  base.tensors.erase(base.tensors.begin());
  ExpectError(
      ErrorCode::kCorrupt, [&] { Chain(base, {ThePatch()}); }, "does not hold it");
}

TEST_F(DiffTest, ATensorOfAnotherShapeOrDtypeIsRefused) {
  model_.Step(10, &random_);
  model_.Write(dir_ / "new");
  const tensor::VersionTable base = Diff().base;
  tensor::VersionTable other = base;
  for (auto& tensor : other.tensors) {
    if (tensor.name == "fp8") tensor.shape = {50, 200};
  }
  ExpectError(
      ErrorCode::kCorrupt, [&] { Chain(other, {ThePatch()}); }, "tensor fp8", "F8_E4M3 [100,100]",
      "F8_E4M3 [50,200]");
  other = base;
  for (auto& tensor : other.tensors) {
    if (tensor.name == "fp8") tensor.dtype = tensor::Dtype::kF8E5M2;
  }
  ExpectError(
      ErrorCode::kCorrupt, [&] { Chain(other, {ThePatch()}); }, "F8_E5M2 [100,100]");
}

TEST_F(DiffTest, OnePatchMustNotChangeAChunkTwice) {
  model_.Step(10, &random_);
  model_.Write(dir_ / "new");
  const tensor::VersionTable base = Diff().base;
  const Patch twice = {&parts_.at(0), &parts_.at(0)};
  ExpectError(
      ErrorCode::kCorrupt, [&] { Chain(base, {twice}); }, "two parts");
}

}  // namespace
}  // namespace isthmus::codec
