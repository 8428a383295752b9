#include "isthmus/gateway/rollout_reader.h"

#include <gtest/gtest.h>

#include "isthmus/gateway/rollout.h"
#include "isthmus/gateway/segment.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::gateway {
namespace {

using testing::ExpectError;

class RolloutReaderTest : public ::testing::Test {
 protected:
  static std::string Line(const std::string& id, const std::string& time,
                          const std::string& answer = "{}") {
    Rollout rollout;
    rollout.request_id = id;
    rollout.arrived = ParseTime(time + "T12:00:00.000Z");
    rollout.answer = answer;
    return ToLine(rollout);
  }
  // An object of these lines.
  void Write(const std::string& stem, const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    UploadSegment(*store_, dir_.Write("segment", text), stem, 3);
  }
  std::vector<std::string> Read(const RolloutFilter& filter = {}) {
    std::vector<std::string> ids;
    RolloutReader reader(*store_, filter);
    read_ = reader.Read([&](std::string_view line) { ids.emplace_back(IdOfLine(line)); });
    return ids;
  }

  testing::TempDir dir_;
  std::unique_ptr<store::Store> store_ = store::OpenStore(dir_ / "store");
  ReadRollouts read_;
};

TEST_F(RolloutReaderTest, GivesEachRolloutOnce) {
  EXPECT_TRUE(Read().empty());
  const std::string a = Line("a", "2026-01-30");
  const std::string b = Line("b", "2026-01-31");
  Write("2026-01-31.y-00000001", {a, b, Line("c", "2026-01-31")});
  Write("2026-01-30.x-00000001", {a, "no rollout", a});
  store_->Put("rollouts/2026-01-30/notes.txt", AsBytes("mine"));
  store_->Put("other", AsBytes("thing"));
  EXPECT_EQ(Read(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(read_.objects, 2U);
  EXPECT_EQ(read_.lines, 3U);
  EXPECT_EQ(read_.repeated, 2U);
  EXPECT_EQ(read_.malformed, 1U);
}

TEST_F(RolloutReaderTest, GivesLinesOfATime) {
  std::vector<std::string> days;
  for (int day = 10; day < 20; ++day) days.push_back(fmt::format("2026-01-{}", day));
  for (const std::string& day : days) Write(day + ".x-1", {Line(day, day)});
  EXPECT_EQ(Read({.since = "2026-01-18", .until = ""}),
            (std::vector<std::string>{"2026-01-18", "2026-01-19"}));
  EXPECT_EQ(Read({.since = "", .until = "2026-01-12"}),
            (std::vector<std::string>{"2026-01-10", "2026-01-11"}));
  EXPECT_EQ(read_.objects, 5U);
  EXPECT_EQ(Read({.since = "2026-01-12T12:00", .until = "2026-01-13T12:00:00.001Z"}),
            (std::vector<std::string>{"2026-01-12", "2026-01-13"}));
  EXPECT_TRUE(Read({.since = "2026-01-12T12:00:00.001Z", .until = "2026-01-13T12:00:00Z"}).empty());
  for (const std::string time :
       {"yesterday", "2026", "2026-13-01", "2026-01-31T25", "2026-01-31x"}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { Read({.since = time, .until = ""}); }, "read time");
  }
}

TEST_F(RolloutReaderTest, ReadsLongLinesAndManyRanges) {
  std::vector<std::string> lines;
  for (int i = 0; i < 40; ++i) {
    std::string text(size_t{1} << 20, 'x');
    uint64_t state = static_cast<uint64_t>(i) + 1;
    for (char& c : text) {
      state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
      c = static_cast<char>('0' + (state >> 58));
      if (c == '"' || c == '\\') c = 'x';
    }
    lines.push_back(Line(fmt::format("r{}", i), "2026-01-31", "\"" + text + "\""));
  }
  Write("2026-01-31.x-1", lines);
  ASSERT_GT(*store_->Size("rollouts/2026-01-31/x-1.jsonl.zst"), uint64_t{16} << 20);
  RolloutReader reader(*store_, {});
  size_t at = 0;
  reader.Read([&](std::string_view line) { EXPECT_EQ(line, lines.at(at++)); });
  EXPECT_EQ(at, lines.size());
}

TEST_F(RolloutReaderTest, SaysWhichObjectIsDamaged) {
  Write("2026-01-31.x-1", {Line("a", "2026-01-31"), Line("b", "2026-01-31")});
  const std::string key = "rollouts/2026-01-31/x-1.jsonl.zst";
  const std::string content = *store_->Get(key, 1 << 20);
  for (size_t size = 1; size < content.size(); ++size) {
    store_->Put(key, AsBytes(content.substr(0, size)));
    ExpectError(
        ErrorCode::kCorrupt, [&] { Read(); }, key);
  }
  for (size_t at = 0; at < content.size(); ++at) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    store_->Put(key, AsBytes(damaged));
    try {
      Read();
      // A few bits of a frame's head mean nothing.
      EXPECT_EQ(read_.lines, 2U) << at;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
    }
  }
}

}  // namespace
}  // namespace isthmus::gateway
