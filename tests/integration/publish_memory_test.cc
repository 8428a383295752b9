// Publishing tensors that lie in memory: the same versions as from files.
#include "isthmus/tensor/checkpoint_write.h"
#include "tests/integration/main_job.h"

namespace isthmus::testing {
namespace {

using tensor::Checkpoint;

class PublishMemoryTest : public MainJob {
 protected:
  // Publishes the model from memory to the run "memory", in the layout of a directory.
  publish::PublishResult PublishFromMemory(const fs::path& layout,
                                           const publish::PublishOptions& options = {}) {
    board::Board board = OpenBoard();
    publish::Publisher publisher(board, "memory", dir_ / "memory-baseline", pool_, NoProgress());
    return publisher.Publish(Checkpoint::OpenWithData(layout, Tensors()), options);
  }

  Checkpoint::MemoryTensors Tensors() const {
    Checkpoint::MemoryTensors tensors;
    for (const ModelTensor& tensor : model_.tensors) tensors[tensor.name] = tensor.data;
    return tensors;
  }

  static std::vector<Sha256Digest> Parts(const publish::PublishResult& result) {
    std::vector<Sha256Digest> parts;
    for (const auto& part : result.manifest.payloads.at(0).parts) parts.push_back(part.sha256);
    return parts;
  }
};

TEST_F(PublishMemoryTest, VersionsAndPatchesAreThoseOfADirectory) {
  model_.Write(dir_ / "layout");
  for (int version = 1; version <= 3; ++version) {
    const publish::PublishResult files = Publish();
    const publish::PublishResult memory = PublishFromMemory(dir_ / "layout");
    EXPECT_EQ(memory.manifest.digest, files.manifest.digest);
    EXPECT_EQ(Parts(memory), Parts(files));
    EXPECT_EQ(memory.manifest.changed, files.manifest.changed);
    EXPECT_EQ(memory.anchor_reason, files.anchor_reason);
    Pull("replica", memory.manifest.version, "memory");
    ExpectIsSource("replica", version);
    model_.Step(500, &random_);
  }
}

TEST_F(PublishMemoryTest, AnAnchorLeavesNoFilesBehind) {
  model_.Write(dir_ / "layout");
  PublishFromMemory(dir_ / "layout");
  EXPECT_FALSE(Exists(dir_ / "memory-baseline/.isthmus/anchor"));
}

TEST_F(PublishMemoryTest, AnEmptyCheckpointServesAsTheLayout) {
  std::vector<tensor::TensorInfo> infos;
  for (const ModelTensor& tensor : model_.tensors) {
    infos.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
  }
  tensor::WriteEmptyCheckpoint(infos, 1 << 20, dir_ / "layout");
  PublishFromMemory(dir_ / "layout");
  model_.Step(500, &random_);
  EXPECT_EQ(PublishFromMemory(dir_ / "layout").anchor_reason, "");
  Pull("replica", 2, "memory");
  const Checkpoint replica = Checkpoint::Open(dir_ / "replica");
  EXPECT_GT(replica.shards().size(), 1U);
  for (const ModelTensor& tensor : model_.tensors) {
    EXPECT_TRUE(std::ranges::equal(replica.Data(*replica.Find(tensor.name)), tensor.data));
  }
}

// Writes one tensor when the comparison is over, as a trainer would that goes on too early.
class WritesAfterTheComparison final : public Progress {
 public:
  explicit WritesAfterTheComparison(std::byte* byte) : byte_(byte) {}
  void Begin(std::string_view label, uint64_t /*total_bytes*/) override {
    comparing_ = label == "compare";
  }
  void Advance(uint64_t /*bytes*/) override {}
  void End() override {
    if (comparing_) *byte_ ^= std::byte{1};
  }

 private:
  std::byte* byte_;
  bool comparing_ = false;
};

TEST_F(PublishMemoryTest, ATensorThatChangesIsNoticedBeforeTheVersionExists) {
  model_.Write(dir_ / "layout");
  PublishFromMemory(dir_ / "layout");
  model_.Step(500, &random_);
  WritesAfterTheComparison writer(&model_.Find("fp8").data[77]);
  board::Board board = OpenBoard();
  publish::Publisher publisher(board, "memory", dir_ / "memory-baseline", pool_, writer);
  publish::PublishOptions options;
  options.check_memory = true;
  ExpectError(
      ErrorCode::kConflict,
      [&] { publisher.Publish(Checkpoint::OpenWithData(dir_ / "layout", Tensors()), options); },
      "publish tensor fp8: it changed while it was read");
  EXPECT_EQ(board.Head("memory"), 1U);
}

// Stops the work at its n-th step.
class StopsAt final : public Progress {
 public:
  explicit StopsAt(int steps) : left_(steps) {}
  void Begin(std::string_view /*label*/, uint64_t /*total_bytes*/) override { Advance(0); }
  void Advance(uint64_t /*bytes*/) override {
    if (left_.fetch_sub(1) == 1) throw Stopped();
  }
  void End() override {}
  bool stopped() const { return left_ <= 0; }

 private:
  std::atomic<int> left_;
};

// Each round stops the same publish one step later, until one runs through.
TEST_F(PublishMemoryTest, WhereverItIsStoppedTheBoardIsWholeAndTheNextPublishWorks) {
  model_.Write(dir_ / "layout");
  PublishFromMemory(dir_ / "layout");
  for (int steps = 1;; ++steps) {
    ASSERT_LT(steps, 1000);
    model_.Step(500, &random_);
    StopsAt progress(steps);
    board::Board board = OpenBoard();
    const board::VersionNumber head = board.Head("memory");
    try {
      publish::Publisher publisher(board, "memory", dir_ / "memory-baseline", pool_, progress);
      publisher.Publish(Checkpoint::OpenWithData(dir_ / "layout", Tensors()), {});
    } catch (const Stopped&) {
      EXPECT_EQ(board.Head("memory"), head);
    }
    const publish::PublishResult next = PublishFromMemory(dir_ / "layout");
    ASSERT_EQ(next.anchor_reason, "");
    ASSERT_EQ(Pull("replica", next.manifest.version, "memory").to, next.manifest.version);
    if (!progress.stopped()) break;
  }
  model_.Write(dir_ / "source-1");
  ExpectIsSource("replica", 1);
}

}  // namespace
}  // namespace isthmus::testing
