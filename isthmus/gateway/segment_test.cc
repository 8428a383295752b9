#include "isthmus/gateway/segment.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <random>

#include "isthmus/gateway/rollout.h"
#include "tests/support/errors.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace isthmus::gateway {
namespace {

constexpr std::string_view kStem = "2026-01-31.gw-00000001";
constexpr std::string_view kKey = "rollouts/2026-01-31/gw-00000001.jsonl.zst";

std::string LineOf(int number, std::string_view answer = "{}") {
  Rollout rollout;
  rollout.request_id = fmt::format("id-{}", number);
  rollout.answer = answer;
  return ToLine(rollout);
}

// All frames of an object, which is what `zstd -d` gives.
std::string Unpack(std::string_view content) {
  std::string lines;
  while (!content.empty()) {
    const size_t size = ZSTD_findFrameCompressedSize(content.data(), content.size());
    EXPECT_EQ(ZSTD_isError(size), 0U);
    std::string frame(ZSTD_getFrameContentSize(content.data(), content.size()), '\0');
    EXPECT_EQ(ZSTD_decompress(frame.data(), frame.size(), content.data(), size), frame.size());
    EXPECT_EQ(frame.back(), '\n');
    lines += frame;
    content.remove_prefix(size);
  }
  return lines;
}

class SegmentTest : public ::testing::Test {
 protected:
  fs::path Write(std::string_view lines) { return dir_.Write("spool/s.jsonl", lines); }
  SegmentObject Upload(const fs::path& file) { return UploadSegment(*store_, file, kStem, 3); }

  testing::TempDir dir_;
  std::unique_ptr<store::Store> store_ = store::OpenStore(dir_ / "store");
};

TEST(SegmentStem, NamesFilesAndObjects) {
  EXPECT_EQ(SegmentStem(ParseTime("2026-01-31T23:59:59.999Z"), "gw", 1), kStem);
  EXPECT_TRUE(IsSegmentStem(kStem));
  EXPECT_EQ(SegmentKey(kStem), kKey);
  for (const std::string_view stem :
       {"", "lock", "2026-01-31", "2026-01-31.", "2026-01-31..x", "2026-01-31x", "2026/01-31.x",
        "2026-01-31.a b", ".026-01-31.x"}) {
    EXPECT_FALSE(IsSegmentStem(stem)) << stem;
  }
}

TEST_F(SegmentTest, BecomesAnObjectOfWholeLines) {
  const std::string lines = LineOf(1) + "\n" + LineOf(2) + "\n";
  const SegmentObject object = Upload(Write(lines + LineOf(3)));
  EXPECT_EQ(object.key, kKey);
  EXPECT_EQ(object.line_bytes, lines.size());
  const auto content = store_->Get(object.key, 1 << 20);
  ASSERT_TRUE(content);
  EXPECT_EQ(object.object_bytes, content->size());
  EXPECT_EQ(Unpack(*content), lines);
  ASSERT_EQ(object.lines.size(), 2U);
  EXPECT_EQ(object.lines[1].id_hash, HashOfId("id-2"));
  EXPECT_EQ(object.lines[1].offset, LineOf(1).size() + 1);
  EXPECT_EQ(object.lines[1].bytes, LineOf(2).size());
}

// Lines from a few bytes to several frames.
TEST_F(SegmentTest, FindsLinesInFrames) {
  std::mt19937_64 random(testing::TestSeed());
  std::string lines;
  std::vector<std::string> all;
  for (int i = 0; i < 60; ++i) {
    std::string text(size_t{1} << (random() % 22), 'x');
    for (size_t at = 0; at < text.size(); at += 7)
      text[at] = static_cast<char>('a' + random() % 26);
    all.push_back(LineOf(i, "\"" + text + "\""));
    lines += all.back() + "\n";
  }
  const fs::path file = Write(lines);
  const SegmentObject object = Upload(file);
  EXPECT_GT(object.frames.size(), 1U);
  EXPECT_EQ(Unpack(*store_->Get(object.key, 1 << 30)), lines);
  ASSERT_EQ(object.lines.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string id = fmt::format("id-{}", i);
    EXPECT_EQ(ReadSpooledLine(file, object.lines[i], id), all[i]);
    EXPECT_EQ(ReadStoredLine(*store_, object, object.lines[i], id), all[i]);
  }
}

TEST_F(SegmentTest, FindsNothingThatIsNotThere) {
  const fs::path file = Write(LineOf(1) + "\n");
  const SegmentObject object = Upload(file);
  const LinePlace place = object.lines.front();
  LinePlace behind = place;
  behind.offset += 1'000'000;
  EXPECT_EQ(ReadSpooledLine(file, place, "id-2"), std::nullopt);
  EXPECT_EQ(ReadSpooledLine(file, behind, "id-1"), std::nullopt);
  EXPECT_EQ(ReadSpooledLine(dir_ / "none", place, "id-1"), std::nullopt);
  EXPECT_EQ(ReadStoredLine(*store_, object, place, "id-2"), std::nullopt);
  EXPECT_EQ(ReadStoredLine(*store_, object, behind, "id-1"), std::nullopt);
  store_->Put(object.key, AsBytes(std::string(object.object_bytes, 'x')));
  EXPECT_EQ(ReadStoredLine(*store_, object, place, "id-1"), std::nullopt);
  store_->Delete(object.key);
  EXPECT_EQ(ReadStoredLine(*store_, object, place, "id-1"), std::nullopt);
}

TEST_F(SegmentTest, IsUploadedAgainOnlyIfItDiffers) {
  const fs::path file = Write(LineOf(1) + "\n");
  EXPECT_EQ(Upload(file).key, kKey);
  EXPECT_EQ(Upload(file).key, kKey);
  const std::string first = *store_->Get(std::string(kKey), 1 << 20);
  for (const std::string& other : {LineOf(2), LineOf(3, "\"much longer than the first one\"")}) {
    const SegmentObject object = Upload(Write(other + "\n"));
    EXPECT_NE(object.key, kKey);
    EXPECT_EQ(Unpack(*store_->Get(object.key, 1 << 20)), other + "\n");
  }
  EXPECT_EQ(store_->Get(std::string(kKey), 1 << 20), first);
}

TEST_F(SegmentTest, RecoversWholeLines) {
  const std::string lines = LineOf(1) + "\nnot one of ours\n" + LineOf(2) + "\n";
  const fs::path file = Write(lines + R"({"id":"id-3","ti)");
  const ScannedSegment scanned = RecoverSegment(file);
  EXPECT_EQ(scanned.bytes, lines.size());
  EXPECT_EQ(ReadFile(file, 1 << 20), lines);
  ASSERT_EQ(scanned.lines.size(), 2U);
  EXPECT_EQ(ReadSpooledLine(file, scanned.lines[1], "id-2"), LineOf(2));
  EXPECT_EQ(RecoverSegment(Write("")).bytes, 0U);
  EXPECT_EQ(RecoverSegment(Write("torn")).bytes, 0U);
}

TEST_F(SegmentTest, KeepsItsIds) {
  const SegmentObject object = Upload(Write(LineOf(1) + "\n" + LineOf(2) + "\n"));
  const fs::path file = dir_ / "s.ids";
  WriteIds(file, object);
  const SegmentObject read = ReadIds(file, 1 << 20);
  EXPECT_EQ(read.key, object.key);
  EXPECT_EQ(read.lines.size(), 2U);
  EXPECT_EQ(ReadStoredLine(*store_, read, read.lines[1], "id-2"), LineOf(2));

  const std::string text = ReadFile(file, 1 << 20);
  for (size_t size = 0; size < text.size(); ++size) {
    dir_.Write("s.ids", text.substr(0, size));
    testing::ExpectError(ErrorCode::kCorrupt, [&] { ReadIds(file, 1 << 20); });
  }
  for (size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    dir_.Write("s.ids", damaged);
    testing::ExpectError(ErrorCode::kCorrupt, [&] { ReadIds(file, 1 << 20); });
  }
}

}  // namespace
}  // namespace isthmus::gateway
