#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>

#include "isthmus/tensor/checkpoint.h"
#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::tensor {
namespace {

using testing::ExpectError;
using testing::IndexJson;
using testing::RandomShard;
using testing::TempDir;

constexpr uint64_t kAny = 1 << 30;

// A checkpoint with tensors around the sizes of leaves and pieces.
void WriteLarge(const TempDir& dir) {
  dir.Write("m-1.safetensors", RandomShard({{"empty", 0},
                                            {"one", 1},
                                            {"leaf", kLeafBytes},
                                            {"leaf+1", kLeafBytes + 1},
                                            {"piece", 4 * kLeafBytes},
                                            {"piece+1", 4 * kLeafBytes + 1}}));
  dir.Write("m-2.safetensors", RandomShard({{"many", 13 * kLeafBytes + 77}}));
  std::map<std::string, std::string> map = {{"many", "m-2.safetensors"}};
  for (const char* name : {"empty", "one", "leaf", "leaf+1", "piece", "piece+1"}) {
    map[name] = "m-1.safetensors";
  }
  dir.Write(kIndexFile, IndexJson(map));
  dir.Write("sub/config.json", "{}");
}

// Two shards of one tensor each, and a file beside them.
void WriteSmall(const TempDir& dir) {
  dir.Write("m-1.safetensors", RandomShard({{"a", 5}}));
  dir.Write("m-2.safetensors", RandomShard({{"b", 7}}));
  dir.Write(kIndexFile, IndexJson({{"a", "m-1.safetensors"}, {"b", "m-2.safetensors"}}));
  dir.Write("config.json", "{}");
}

// The table made the plain way, from whole files.
VersionTable SerialTable(const Checkpoint& checkpoint) {
  VersionTable table;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    table.tensors.push_back({tensor.info.name, tensor.info.dtype, tensor.info.shape,
                             checkpoint.shards()[tensor.shard].file,
                             TensorDigest(checkpoint.Data(tensor))});
  }
  for (const Checkpoint::Shard& shard : checkpoint.shards()) {
    const std::string file = ReadFile(checkpoint.directory() / shard.file, kAny);
    const uint64_t json_bytes = LoadLe<uint64_t>(AsBytes(file).data());
    table.shards.push_back({shard.file, Sha256(AsBytes(file).first(8 + json_bytes))});
  }
  for (const Checkpoint::OtherFile& other : checkpoint.other_files()) {
    const std::string file = ReadFile(checkpoint.directory() / other.path, kAny);
    table.files.push_back({other.path, file.size(), Sha256(AsBytes(file))});
  }
  return table;
}

TEST(DigestCheckpointTest, GivesTheSameTableOnAnyNumberOfThreads) {
  const TempDir dir;
  WriteLarge(dir);
  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  const VersionTable expected = SerialTable(checkpoint);
  for (size_t threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(DigestCheckpoint(checkpoint, pool), expected) << threads;
  }
  EXPECT_EQ(VersionTable::Parse(expected.Serialize()), expected);
}

TEST(DigestCheckpointTest, DescribingIsTheSameWithoutTensorDigests) {
  const TempDir dir;
  WriteLarge(dir);
  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  VersionTable expected = SerialTable(checkpoint);
  for (VersionTable::Tensor& tensor : expected.tensors) tensor.digest = Xxh128Digest();
  EXPECT_EQ(DescribeCheckpoint(checkpoint), expected);
}

TEST(DigestCheckpointTest, EveryByteOfTheCheckpointCounts) {
  const TempDir dir;
  WriteSmall(dir);
  ThreadPool pool(1);
  const auto digest = [&] { return DigestCheckpoint(Checkpoint::Open(dir.path()), pool).Digest(); };
  const Sha256Digest before = digest();
  for (const char* name : {"m-1.safetensors", "m-2.safetensors", "config.json"}) {
    const std::string old = ReadFile(dir / name, kAny);
    std::string changed = old;
    changed.back() = static_cast<char>(changed.back() ^ 1);
    dir.Write(name, changed);
    EXPECT_NE(digest(), before) << name;
    dir.Write(name, old);
  }
  EXPECT_EQ(digest(), before);
}

TEST(DigestCheckpointTest, AShardCutAfterOpenIsCorruptOnceItsBytesAreRead) {
  const TempDir dir;
  dir.Write("m.safetensors", RandomShard({{"w", 1 << 20}}));
  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  fs::resize_file(dir / "m.safetensors", 1000);
  ThreadPool pool(2);
  ExpectError(
      ErrorCode::kCorrupt, [&] { DigestCheckpoint(checkpoint, pool); }, "m.safetensors");
  ExpectError(ErrorCode::kCorrupt, [&] { checkpoint.CheckIntact(); });
}

// Adds up what it is told.
class CountingProgress final : public Progress {
 public:
  void Begin(std::string_view /*label*/, uint64_t total_bytes) override { total_ += total_bytes; }
  void Advance(uint64_t bytes) override { advanced_ += bytes; }
  void End() override { ++ends_; }

  uint64_t total() const { return total_; }
  uint64_t advanced() const { return advanced_; }
  int ends() const { return ends_; }

 private:
  uint64_t total_ = 0;
  std::atomic<uint64_t> advanced_ = 0;
  int ends_ = 0;
};

TEST(DigestCheckpointTest, ProgressEndsAtTheSizeOfAllFiles) {
  const TempDir dir;
  WriteLarge(dir);
  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  ThreadPool pool(3);
  CountingProgress progress;
  DigestCheckpoint(checkpoint, pool, progress);
  EXPECT_EQ(progress.total(), checkpoint.total_bytes());
  EXPECT_EQ(progress.advanced(), checkpoint.total_bytes());
  EXPECT_EQ(progress.ends(), 1);
}

TEST(DigestCheckpointTest, AnotherFileThatGrewSinceOpenIsAConflictAndProgressEnds) {
  const TempDir dir;
  WriteSmall(dir);
  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  dir.Write("config.json", "{...}");
  ThreadPool pool(2);
  CountingProgress progress;
  ExpectError(
      ErrorCode::kConflict, [&] { DigestCheckpoint(checkpoint, pool, progress); }, "config.json",
      "from 2 to 5 bytes");
  EXPECT_EQ(progress.ends(), 1);
  ExpectError(
      ErrorCode::kConflict, [&] { DescribeCheckpoint(checkpoint); }, "config.json");
}

}  // namespace
}  // namespace isthmus::tensor
