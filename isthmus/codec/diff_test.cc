#include "isthmus/codec/diff.h"

#include <gtest/gtest.h>

#include <random>

#include "isthmus/codec/chain.h"
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

  // Compares old with new; the parts, of at most `part_bytes` each.
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
        DiffCheckpoints(base, next, policy, pool_, NoProgress(), [&](TensorDiff change) {
          AddTensorChange(std::move(change), part_bytes, &builder, flush);
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

  // Folds the patch into the old tensors and compares with the new ones.
  void ExpectPatchLeadsToNew(const DiffResult& result) {
    const Checkpoint base = Checkpoint::Open(dir_ / "old");
    const Checkpoint next = Checkpoint::Open(dir_ / "new");
    const Chain chain(result.base, {ThePatch()});
    EXPECT_EQ(chain.result(), tensor::DigestCheckpoint(next, pool_));
    for (size_t i = 0; i < base.tensors().size(); ++i) {
      const ByteSpan old_data = base.Data(base.tensors()[i]);
      ByteVector data(old_data.begin(), old_data.end());
      const tensor::Dtype dtype = base.tensors()[i].info.dtype;
      for (uint64_t c = 0; c < ChunkCount(dtype, data.size()); ++c) {
        const uint64_t begin = c * ChunkBytes(dtype);
        chain.FoldChunk(i, c,
                        MutableByteSpan(data).subspan(
                            begin, std::min<uint64_t>(ChunkBytes(dtype), data.size() - begin)));
      }
      EXPECT_EQ(AsText(data), AsText(next.Data(next.tensors()[i])));
    }
  }

  std::string WhyNot() {
    model_.Write(dir_ / "new");
    return WhyNoPatch(Checkpoint::Open(dir_ / "old"), Checkpoint::Open(dir_ / "new")).value_or("");
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
          EncodingPolicy(Encoding::kDirect)}) {
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

TEST_F(DiffTest, SmallPartsSplitALargeTensorByChunkRanges) {
  model_.Step(3, &random_);
  model_.Write(dir_ / "new");
  const DiffResult result = Diff(Encoding::kDirect, 1000);
  EXPECT_GT(parts_.size(), 3U);
  ExpectPatchLeadsToNew(result);
}

TEST_F(DiffTest, TheCheapestEncodingIsChosenForEachTensor) {
  ::isthmus::testing::ModelTensor& embed = model_.Find("embed");
  embed.data[4] ^= std::byte{1};
  for (std::byte& byte : model_.Find("fp8").data) byte = static_cast<std::byte>(random_());
  model_.Write(dir_ / "new");
  Diff();
  for (const TensorEntry& entry : parts_.at(0).tensors()) {
    EXPECT_EQ(EncodingName(entry.encoding), entry.name == "embed" ? "direct" : "raw") << entry.name;
  }
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

TEST_F(DiffTest, AFileThatBecomesAFolderIsNamedAsTheReason) {
  model_.files["sub"] = "a file now";
  model_.files.erase("sub/vocab.txt");
  EXPECT_EQ(WhyNot(), "sub is a file in one and a folder in the other");
}

TEST_F(DiffTest, ALostTensorIsNamedAsTheReason) {
  std::erase_if(model_.tensors, [](const auto& tensor) { return tensor.name == "fp8"; });
  EXPECT_EQ(WhyNot(), "tensor fp8 is gone");
}

TEST_F(DiffTest, ANewTensorIsNamedAsTheReason) {
  model_.Add("extra", tensor::Dtype::kU8, {4}, "model-00002-of-00002.safetensors", &random_);
  EXPECT_EQ(WhyNot(), "tensor extra is new");
}

TEST_F(DiffTest, AnotherShapeOrDtypeIsNamedAsTheReason) {
  model_.Find("fp8").shape = {50, 200};
  EXPECT_EQ(WhyNot(), "tensor fp8 changed shape");
  model_.Find("fp8").shape = {100, 100};
  model_.Find("fp8").dtype = tensor::Dtype::kF8E5M2;
  EXPECT_EQ(WhyNot(), "tensor fp8 changed dtype from F8_E4M3 to F8_E5M2");
}

TEST_F(DiffTest, AnotherShardOrHeaderLengthIsNamedAsTheReason) {
  model_.metadata = {{"format", "pt"}, {"a key that is rather long", "and its value"}};
  EXPECT_THAT(WhyNot(), ::testing::HasSubstr("changed its length"));
}

TEST_F(DiffTest, ComparingWhatNoPatchCanLeadToIsRefused) {
  std::erase_if(model_.tensors, [](const auto& tensor) { return tensor.name == "fp8"; });
  model_.Write(dir_ / "new");
  ExpectError(
      ErrorCode::kInvalid, [&] { Diff(); }, "fp8 is gone");
}

TEST_F(DiffTest, AWrongBaseIsRefusedNamingBothDigests) {
  model_.Step(1000, &random_);
  model_.Write(dir_ / "new");
  const DiffResult result = Diff();
  tensor::VersionTable other = result.base;
  const std::string expected = result.base.Find("embed")->digest.Hex();
  for (auto& tensor : other.tensors) {
    if (tensor.name == "embed") tensor.digest = Xxh3_128(AsBytes("another content"));
  }
  ExpectError(
      ErrorCode::kCorrupt, [&] { Chain(other, {ThePatch()}); }, "embed", "wrong base", expected,
      Xxh3_128(AsBytes("another content")).Hex());
}

TEST_F(DiffTest, ATensorThatTheBaseLacksIsRefused) {
  model_.Step(10, &random_);
  model_.Write(dir_ / "new");
  tensor::VersionTable base = Diff().base;
  base.tensors.erase(base.tensors.begin());
  ExpectError(
      ErrorCode::kCorrupt, [&] { Chain(base, {ThePatch()}); }, "does not hold it");
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
