#include "isthmus/replica/chain_apply.h"

#include <gtest/gtest.h>

#include <random>

#include "isthmus/codec/diff.h"
#include "tests/support/errors.h"
#include "tests/support/model.h"
#include "tests/support/temp_dir.h"

namespace isthmus::replica {
namespace {

using ::isthmus::testing::ExpectError;
using ::isthmus::testing::Model;
using ::isthmus::testing::SmallModel;
using ::isthmus::testing::TempDir;
using tensor::Checkpoint;

class ChainApplyTest : public ::testing::Test {
 protected:
  ChainApplyTest() : seed_(std::random_device()()), random_(seed_), model_(SmallModel(&random_)) {
    RecordProperty("seed", static_cast<int>(seed_));
  }

  void Write(const std::string& name) const { model_.Write(dir_ / name); }

  tensor::VersionTable TableOf(const std::string& name) {
    return tensor::DigestCheckpoint(Checkpoint::Open(dir_ / name), pool_);
  }

  // Appends the part that leads from one directory's checkpoint to another's.
  void AddPatch(const std::string& from, const std::string& to) {
    codec::PartBuilder builder;
    const Checkpoint base = Checkpoint::Open(dir_ / from);
    const Checkpoint next = Checkpoint::Open(dir_ / to);
    const codec::DiffResult diff = codec::DiffCheckpoints(
        base, next, {}, pool_, NoProgress(),
        [&](codec::ChunkDiff change) { codec::AddChunkDiff(std::move(change), &builder); });
    codec::AddFileChanges(next, diff.base, diff.next, &builder);
    AddPart(&builder);
  }

  void AddPart(codec::PartBuilder* builder) {
    bytes_.push_back(std::make_unique<ByteVector>());
    builder->Finish(std::nullopt, [&](ByteSpan piece) {
      bytes_.back()->insert(bytes_.back()->end(), piece.begin(), piece.end());
    });
    parts_.push_back(std::make_unique<codec::Part>(codec::Part::Open(*bytes_.back())));
  }

  codec::Chain ChainFrom(const std::string& name) {
    std::vector<codec::Patch> patches;
    patches.reserve(parts_.size());
    for (const auto& part : parts_) patches.push_back({part.get()});
    return {TableOf(name), patches};
  }

  // Brings "replica", which holds chain.base(), to the version that `target` holds.
  void Apply(const codec::Chain& chain, const std::string& target, UndoLog* undo) {
    ApplyChain(Checkpoint::Open(dir_ / "replica", Access::kReadWrite), chain,
               TableOf(target).Digest(), undo, pool_, NoProgress());
  }

  void ExpectSame(const std::string& found, const std::string& expected) {
    EXPECT_EQ(TableOf(found), TableOf(expected));
  }

  TempDir dir_;
  unsigned seed_;
  std::mt19937 random_;
  Model model_;
  ThreadPool pool_{2};
  std::vector<std::unique_ptr<ByteVector>> bytes_;
  std::vector<std::unique_ptr<codec::Part>> parts_;
};

TEST_F(ChainApplyTest, SeveralPatchesFoldedInOnePassGiveTheLastVersion) {
  Write("v1");
  for (const int version : {2, 3, 4}) {
    model_.Step(version == 3 ? 2 : 200, &random_);
    model_.files["config.json"] = "{\"version\":" + std::to_string(version) + "}";
    Write("v" + std::to_string(version));
    AddPatch("v" + std::to_string(version - 1), "v" + std::to_string(version));
  }
  fs::copy(dir_ / "v1", dir_ / "replica", fs::copy_options::recursive);
  UndoLog undo(dir_ / "undo");
  Apply(ChainFrom("v1"), "v4", &undo);
  ExpectSame("replica", "v4");
  EXPECT_GT(UndoLog::Replay(dir_ / "undo", dir_ / "replica"), 0U);
  ExpectSame("replica", "v1");
}

TEST_F(ChainApplyTest, FilesAndHeadersFollowAndAreTakenBack) {
  Write("v1");
  Write("replica");
  model_.metadata = {{"format", "np"}};
  model_.files = {{"other/added.txt", "new"}};
  Write("v2");
  AddPatch("v1", "v2");
  UndoLog undo(dir_ / "undo");
  Apply(ChainFrom("v1"), "v2", &undo);
  ExpectSame("replica", "v2");
  EXPECT_FALSE(Exists(dir_ / "replica/sub"));
  UndoLog::Replay(dir_ / "undo", dir_ / "replica");
  ExpectSame("replica", "v1");
}

TEST_F(ChainApplyTest, DamageAnywhereInTheBaseIsFoundAndTakenBack) {
  Write("v1");
  model_.Step(50, &random_);
  Write("v2");
  AddPatch("v1", "v2");
  const codec::Chain chain = ChainFrom("v1");
  // A byte of a tensor that the patch leaves alone or changes: both must be noticed.
  for (const std::string shard :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    fs::remove_all(dir_ / "replica");
    fs::copy(dir_ / "v1", dir_ / "replica", fs::copy_options::recursive);
    std::string content = ReadFile(dir_ / "replica" / shard, 1 << 30);
    content[content.size() - 1 - random_() % 1000] ^= 0x10;
    File::Create(dir_ / "replica" / shard).Write(AsBytes(content));
    UndoLog undo(dir_ / "undo");
    ExpectError(ErrorCode::kCorrupt, [&] { Apply(chain, "v2", &undo); });
    UndoLog::Replay(dir_ / "undo", dir_ / "replica");
    EXPECT_EQ(ReadFile(dir_ / "replica" / shard, 1 << 30), content);
  }
}

TEST_F(ChainApplyTest, AChainThatLeadsElsewhereIsNoticed) {
  Write("v1");
  Write("replica");
  model_.Step(50, &random_);
  Write("v2");
  AddPatch("v1", "v2");
  model_.Step(50, &random_);
  Write("v3");
  UndoLog undo(dir_ / "undo");
  ExpectError(
      ErrorCode::kCorrupt, [&] { Apply(ChainFrom("v1"), "v3", &undo); }, "the patches lead to",
      FormatSha256(TableOf("v3").Digest()));
  UndoLog::Replay(dir_ / "undo", dir_ / "replica");
  ExpectSame("replica", "v1");
}

TEST_F(ChainApplyTest, TheTensorThatWentWrongIsNamed) {
  Write("v1");
  Write("replica");
  model_.Find("fp8").data[5] ^= std::byte{1};
  model_.Find("scales").data[5] ^= std::byte{1};
  Write("v2");
  AddPatch("v1", "v2");
  // A wrong sum can only come from a wrong encoder: the part is made again with one.
  codec::PartBuilder builder;
  for (codec::TensorEntry entry : parts_[0]->tensors()) {
    if (entry.name == "scales") ++entry.sum_change;
    builder.AddTensor(entry);
  }
  for (const codec::ChunkEntry& chunk : parts_[0]->chunks()) {
    const ByteSpan payload = parts_[0]->Payload(chunk);
    builder.AddChunk(chunk, &parts_[0]->models().at(chunk.model),
                     ByteVector(payload.begin(), payload.end()));
  }
  AddPart(&builder);
  parts_.erase(parts_.begin());
  ExpectError(
      ErrorCode::kCorrupt, [&] { Apply(ChainFrom("v1"), "v2", nullptr); },
      "tensor scales: its sum changed by");
}

TEST_F(ChainApplyTest, AnotherCheckpointIsRefused) {
  Write("v1");
  const codec::Chain chain = ChainFrom("v1");
  std::erase_if(model_.tensors, [](const auto& tensor) { return tensor.name == "fp8"; });
  Write("other");
  ExpectError(
      ErrorCode::kCorrupt,
      [&] {
        ApplyChain(Checkpoint::Open(dir_ / "other", Access::kReadWrite), chain,
                   TableOf("v1").Digest(), nullptr, pool_, NoProgress());
      },
      "its tensors are not those");
}

TEST_F(ChainApplyTest, EveryFlippedByteOfASmallCheckpointFailsVerification) {
  Model tiny;
  tiny.files = {{"config.json", "{}"}};
  tiny.Add("a", tensor::Dtype::kBf16, {3, 5}, "model-00001-of-00001.safetensors", &random_);
  tiny.Add("b", tensor::Dtype::kF8E4M3, {7}, "model-00001-of-00001.safetensors", &random_);
  tiny.Write(dir_ / "tiny");
  const tensor::VersionTable table = TableOf("tiny");
  VerifyCheckpoint(Checkpoint::Open(dir_ / "tiny"), table, pool_, NoProgress());
  for (const std::string file :
       {"model-00001-of-00001.safetensors", "config.json", "model.safetensors.index.json"}) {
    const std::string content = ReadFile(dir_ / "tiny" / file, 1 << 20);
    for (size_t i = 0; i < content.size(); ++i) {
      std::string damaged = content;
      damaged[i] ^= 0x04;
      File::Create(dir_ / "tiny" / file).Write(AsBytes(damaged));
      EXPECT_THROW(VerifyCheckpoint(Checkpoint::Open(dir_ / "tiny"), table, pool_, NoProgress()),
                   Error)
          << file << " byte " << i;
    }
    for (size_t size = 0; size < content.size(); ++size) {
      File::Create(dir_ / "tiny" / file).Write(AsBytes(content.substr(0, size)));
      EXPECT_THROW(VerifyCheckpoint(Checkpoint::Open(dir_ / "tiny"), table, pool_, NoProgress()),
                   Error)
          << file << " cut to " << size;
    }
    File::Create(dir_ / "tiny" / file).Write(AsBytes(content));
  }
}

}  // namespace
}  // namespace isthmus::replica
