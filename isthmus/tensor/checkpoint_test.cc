#include "isthmus/tensor/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::tensor {
namespace {

using ::testing::ElementsAre;
using testing::ExpectError;
using testing::IndexJson;
using ::testing::IsEmpty;
using testing::RandomShard;
using testing::TempDir;

constexpr uint64_t kAny = 1 << 30;

using Names = std::vector<std::string>;

// Two shards: "a" and "c" in m-1, "b" in m-2.
void WriteSharded(const TempDir& dir) {
  dir.Write("m-1.safetensors", RandomShard({{"c", 3}, {"a", 5}}));
  dir.Write("m-2.safetensors", RandomShard({{"b", 7}}));
  dir.Write(
      kIndexFile,
      IndexJson({{"a", "m-1.safetensors"}, {"b", "m-2.safetensors"}, {"c", "m-1.safetensors"}}));
}

Names TensorNames(const Checkpoint& checkpoint) {
  Names names;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) names.push_back(tensor.info.name);
  return names;
}

Names ShardNames(const Checkpoint& checkpoint) {
  Names names;
  for (const Checkpoint::Shard& shard : checkpoint.shards()) names.push_back(shard.file);
  return names;
}

Names OtherNames(const Checkpoint& checkpoint) {
  Names names;
  for (const Checkpoint::OtherFile& file : checkpoint.other_files()) names.push_back(file.path);
  return names;
}

template <typename... Parts>
void ExpectNotOpened(const TempDir& dir, ErrorCode code, const Parts&... parts) {
  ExpectError(
      code, [&] { Checkpoint::Open(dir.path()); }, dir.path().string(), parts...);
}

TEST(CheckpointTest, OpensASingleFile) {
  const TempDir dir;
  const std::string file = RandomShard({{"w", 10}, {"b", 0}});
  dir.Write("model.safetensors", file);
  dir.Write("config.json", "{}");

  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  EXPECT_EQ(checkpoint.directory(), dir.path());
  EXPECT_THAT(ShardNames(checkpoint), ElementsAre("model.safetensors"));
  EXPECT_THAT(TensorNames(checkpoint), ElementsAre("b", "w"));
  EXPECT_THAT(OtherNames(checkpoint), ElementsAre("config.json"));
  EXPECT_EQ(checkpoint.other_files()[0].bytes, 2u);
  EXPECT_EQ(checkpoint.tensor_bytes(), 10u);
  EXPECT_EQ(checkpoint.total_bytes(), file.size() + 2);
  EXPECT_EQ(AsText(checkpoint.Data(checkpoint.tensors()[1])), file.substr(file.size() - 10));
  EXPECT_EQ(AsText(checkpoint.shards()[0].header_bytes()), file.substr(0, file.size() - 10));
  EXPECT_TRUE(checkpoint.Data(checkpoint.tensors()[0]).empty());
  checkpoint.CheckIntact();
  checkpoint.CheckUnchanged();
}

TEST(CheckpointTest, OpensShardsThatTheIndexNames) {
  const TempDir dir;
  WriteSharded(dir);
  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  EXPECT_THAT(ShardNames(checkpoint), ElementsAre("m-1.safetensors", "m-2.safetensors"));
  EXPECT_THAT(TensorNames(checkpoint), ElementsAre("a", "b", "c"));
  EXPECT_EQ(checkpoint.tensors()[1].shard, 1u);
  EXPECT_EQ(checkpoint.tensors()[2].shard, 0u);
  EXPECT_THAT(OtherNames(checkpoint), ElementsAre(std::string(kIndexFile)));
  EXPECT_EQ(checkpoint.tensor_bytes(), 15u);
}

TEST(CheckpointTest, AnIndexMayNameASingleFile) {
  const TempDir dir;
  dir.Write("m.safetensors", RandomShard({{"w", 1}}));
  dir.Write(kIndexFile, IndexJson({{"w", "m.safetensors"}}));
  EXPECT_THAT(TensorNames(Checkpoint::Open(dir.path())), ElementsAre("w"));
}

TEST(CheckpointTest, FindsTensorsByName) {
  const TempDir dir;
  WriteSharded(dir);
  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    EXPECT_EQ(checkpoint.Find(tensor.info.name), &tensor);
  }
  for (std::string_view name : {"", "A", "aa", "d"}) EXPECT_EQ(checkpoint.Find(name), nullptr);
}

TEST(CheckpointTest, FollowsTheLinksOfTheHubCache) {
  const TempDir dir;
  dir.Write("blobs/1", RandomShard({{"w", 4}}));
  dir.Write("blobs/2", "{\"x\":1}");
  fs::create_directories(dir / "snapshots/abc/sub");
  fs::create_symlink("../../blobs/1", dir / "snapshots/abc/model.safetensors");
  fs::create_symlink("../../blobs/2", dir / "snapshots/abc/config.json");
  fs::create_symlink("../../../blobs/2", dir / "snapshots/abc/sub/extra.json");

  const Checkpoint checkpoint = Checkpoint::Open(dir / "snapshots/abc");
  EXPECT_THAT(TensorNames(checkpoint), ElementsAre("w"));
  EXPECT_THAT(OtherNames(checkpoint), ElementsAre("config.json", "sub/extra.json"));
  EXPECT_EQ(checkpoint.other_files()[0].bytes, 7u);
}

TEST(CheckpointTest, ALinkToNothingIsNotFound) {
  const TempDir dir;
  dir.Write("m.safetensors", RandomShard({{"w", 4}}));
  fs::create_symlink("../blobs/gone", dir / "config.json");
  ExpectNotOpened(dir, ErrorCode::kNotFound, "config.json", "../blobs/gone");
}

TEST(CheckpointTest, DoesNotEnterLinkedDirectories) {
  const TempDir dir;
  dir.Write("ckpt/m.safetensors", RandomShard({{"w", 4}}));
  dir.Write("elsewhere/secret", "x");
  fs::create_directory_symlink("../elsewhere", dir / "ckpt/link");
  fs::create_directory_symlink(".", dir / "ckpt/loop");
  EXPECT_THAT(OtherNames(Checkpoint::Open(dir / "ckpt")), IsEmpty());
}

TEST(CheckpointTest, OtherFilesAreListedAtEveryDepthByPath) {
  const TempDir dir;
  dir.Write("m.safetensors", RandomShard({{"w", 4}}));
  for (const char* name :
       {"z.txt", "a/b/c.txt", "a/b.txt", "a-b.txt", "empty", "a/x.safetensors"}) {
    dir.Write(name, "");
  }
  EXPECT_THAT(OtherNames(Checkpoint::Open(dir.path())),
              ElementsAre("a-b.txt", "a/b.txt", "a/b/c.txt", "a/x.safetensors", "empty", "z.txt"));
}

TEST(CheckpointTest, HiddenNamesAndWhatIsNoFileAreIgnored) {
  const TempDir dir;
  dir.Write("m.safetensors", RandomShard({{"w", 4}}));
  dir.Write(".gitattributes", "x");
  dir.Write(".cache/x.json", "x");
  dir.Write("sub/.hidden", "x");
  dir.Write(".other.safetensors", "x");
  fs::create_directories(dir / "dir.safetensors");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(OtherNames(Checkpoint::Open(dir.path())), IsEmpty());
}

TEST(CheckpointTest, TheDirectoryMayBeNamedInAnyWay) {
  const TempDir dir;
  dir.Write("ckpt/m.safetensors", RandomShard({{"w", 4}}));
  dir.Write("ckpt/sub/x", "");
  fs::create_directory_symlink("ckpt", dir / "link");
  for (const char* name : {"ckpt", "ckpt/", "ckpt//", "ckpt/.", "./ckpt", "ckpt/../ckpt", "link",
                           "link/", "ckpt/sub/.."}) {
    SCOPED_TRACE(name);
    const Checkpoint checkpoint = Checkpoint::Open(dir / name);
    EXPECT_THAT(ShardNames(checkpoint), ElementsAre("m.safetensors"));
    EXPECT_THAT(OtherNames(checkpoint), ElementsAre("sub/x"));
    checkpoint.CheckUnchanged();
  }
}

TEST(CheckpointTest, AMissingDirectoryIsNotFoundAndAFileIsInvalid) {
  const TempDir dir;
  dir.Write("f", "x");
  ExpectError(
      ErrorCode::kNotFound, [&] { Checkpoint::Open(dir / "none"); }, (dir / "none").string());
  ExpectError(
      ErrorCode::kInvalid, [&] { Checkpoint::Open(dir / "f"); }, "not a directory");
}

TEST(CheckpointTest, ADirectoryWithoutWeightsIsNotFound) {
  const TempDir dir;
  dir.Write("config.json", "{}");
  dir.Write("sub/m.safetensors", RandomShard({{"w", 4}}));
  ExpectNotOpened(dir, ErrorCode::kNotFound, "no *.safetensors file");
}

TEST(CheckpointTest, SeveralFilesWithoutAnIndexAreRefused) {
  const TempDir dir;
  for (const char* name : {"a", "b", "c"}) {
    dir.Write(fmt::format("{}.safetensors", name), RandomShard({{name, 1}}));
  }
  ExpectNotOpened(dir, ErrorCode::kCorrupt, "3 *.safetensors files", "a.safetensors",
                  "b.safetensors", kIndexFile);
}

TEST(CheckpointTest, AnIndexThatNamesAMissingShardIsRefused) {
  const TempDir dir;
  WriteSharded(dir);
  fs::remove(dir / "m-2.safetensors");
  ExpectNotOpened(dir, ErrorCode::kNotFound, kIndexFile, "\"b\"", "m-2.safetensors",
                  "does not exist");
}

TEST(CheckpointTest, AShardThatTheIndexDoesNotNameIsRefused) {
  const TempDir dir;
  WriteSharded(dir);
  dir.Write("consolidated.safetensors", RandomShard({{"a", 5}}));
  ExpectNotOpened(dir, ErrorCode::kCorrupt, kIndexFile, "consolidated.safetensors");
}

TEST(CheckpointTest, AnIndexThatNamesAMissingTensorIsRefused) {
  for (const char* name : {"0", "aa", "d"}) {  // before, between and after those that exist
    const TempDir dir;
    WriteSharded(dir);
    dir.Write(kIndexFile, IndexJson({{"a", "m-1.safetensors"},
                                     {"b", "m-2.safetensors"},
                                     {"c", "m-1.safetensors"},
                                     {name, "m-2.safetensors"}}));
    ExpectNotOpened(dir, ErrorCode::kCorrupt, kIndexFile, fmt::format("\"{}\"", name),
                    "not in m-2.safetensors");
  }
}

TEST(CheckpointTest, ATensorThatTheIndexDoesNotNameIsRefused) {
  const std::map<std::string, std::string> all = {
      {"a", "m-1.safetensors"}, {"b", "m-2.safetensors"}, {"c", "m-1.safetensors"}};
  for (const char* name : {"a", "c"}) {
    const TempDir dir;
    WriteSharded(dir);
    auto some = all;
    some.erase(name);
    dir.Write(kIndexFile, IndexJson(some));
    ExpectNotOpened(dir, ErrorCode::kCorrupt, kIndexFile, fmt::format("\"{}\"", name),
                    "m-1.safetensors", "not in weight_map");
  }
}

TEST(CheckpointTest, ATensorInAnotherShardThanTheIndexSaysIsRefused) {
  const TempDir dir;
  WriteSharded(dir);
  dir.Write(
      kIndexFile,
      IndexJson({{"a", "m-2.safetensors"}, {"b", "m-2.safetensors"}, {"c", "m-1.safetensors"}}));
  ExpectNotOpened(dir, ErrorCode::kCorrupt, kIndexFile, "\"a\"", "is in m-1.safetensors",
                  "says m-2.safetensors");
}

TEST(CheckpointTest, ATensorInTwoShardsIsRefused) {
  const TempDir dir;
  WriteSharded(dir);
  dir.Write("m-2.safetensors", RandomShard({{"b", 7}, {"c", 3}}));
  ExpectNotOpened(dir, ErrorCode::kCorrupt, "\"c\"", "m-1.safetensors", "m-2.safetensors");
}

TEST(CheckpointTest, AnIndexThatPointsOutOfTheDirectoryIsRefused) {
  const TempDir dir;
  const fs::path outside = dir.Write("m.safetensors", RandomShard({{"w", 4}}));
  dir.Write("ckpt/in.safetensors", RandomShard({{"w", 4}}));
  for (const std::string& shard : {std::string("../m.safetensors"), outside.string(),
                                   std::string("sub/../in.safetensors"), std::string("..")}) {
    dir.Write(fmt::format("ckpt/{}", kIndexFile), IndexJson({{"w", shard}}));
    ExpectError(
        ErrorCode::kCorrupt, [&] { Checkpoint::Open(dir / "ckpt"); }, kIndexFile, "\"w\"", shard);
  }
}

TEST(CheckpointTest, AMalformedIndexIsRefusedWithItsName) {
  const TempDir dir;
  WriteSharded(dir);
  dir.Write(kIndexFile, "{");
  ExpectNotOpened(dir, ErrorCode::kCorrupt, kIndexFile, "not a JSON object");
}

TEST(CheckpointTest, AMalformedShardIsRefusedWithItsName) {
  const TempDir dir;
  WriteSharded(dir);
  dir.Write("m-2.safetensors", "");
  ExpectNotOpened(dir, ErrorCode::kCorrupt, "m-2.safetensors", "0 bytes");
  const std::string whole = RandomShard({{"b", 7}});
  dir.Write("m-2.safetensors", whole.substr(0, whole.size() - 1));
  ExpectNotOpened(dir, ErrorCode::kCorrupt, "m-2.safetensors", "\"b\"");
}

TEST(CheckpointTest, AFileNameWithControlCharactersIsRefused) {
  const TempDir dir;
  dir.Write("m.safetensors", RandomShard({{"w", 4}}));
  dir.Write("a\nb", "");
  ExpectNotOpened(dir, ErrorCode::kCorrupt, "a\\nb", "control characters");
}

TEST(CheckpointTest, WritesReachTheFiles) {
  const TempDir dir;
  WriteSharded(dir);
  {
    const Checkpoint checkpoint = Checkpoint::Open(dir.path(), Access::kReadWrite);
    std::ranges::fill(checkpoint.WritableData(*checkpoint.Find("b")), std::byte{'B'});
  }
  EXPECT_TRUE(ReadFile(dir / "m-2.safetensors", kAny).ends_with("BBBBBBB"));
}

TEST(CheckpointTest, ACheckpointForReadingIsNotWritable) {
  const TempDir dir;
  WriteSharded(dir);
  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  ExpectError(ErrorCode::kInternal, [&] { checkpoint.WritableData(checkpoint.tensors()[0]); });
}

TEST(CheckpointTest, CheckUnchangedSeesANewSize) {
  const TempDir dir;
  WriteSharded(dir);
  dir.Write("config.json", "{}");
  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  checkpoint.CheckUnchanged();
  dir.Write("config.json", "{} ");
  ExpectError(
      ErrorCode::kConflict, [&] { checkpoint.CheckUnchanged(); }, "config.json",
      "changed from 2 to 3 bytes");
}

TEST(CheckpointTest, CheckUnchangedSeesANewTimeAtTheSameSize) {
  const TempDir dir;
  WriteSharded(dir);
  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  const fs::path shard = dir / "m-1.safetensors";
  fs::last_write_time(shard, fs::last_write_time(shard) + std::chrono::nanoseconds(1));
  ExpectError(
      ErrorCode::kConflict, [&] { checkpoint.CheckUnchanged(); }, shard.string());
}

TEST(CheckpointTest, CheckUnchangedSeesARemovedFile) {
  const TempDir dir;
  WriteSharded(dir);
  const Checkpoint checkpoint = Checkpoint::Open(dir.path());
  fs::remove(dir / "m-1.safetensors");
  ExpectError(
      ErrorCode::kConflict, [&] { checkpoint.CheckUnchanged(); }, "m-1.safetensors", "removed");
}

}  // namespace
}  // namespace isthmus::tensor
