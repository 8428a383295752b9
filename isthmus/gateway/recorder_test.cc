#include "isthmus/gateway/recorder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zstd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <set>

#include "isthmus/gateway/segment.h"
#include "tests/support/away_store.h"
#include "tests/support/errors.h"
#include "tests/support/net.h"
#include "tests/support/temp_dir.h"

namespace isthmus::gateway {
namespace {

using testing::AwayStore;
using testing::AwaySwitch;
using testing::ExpectError;
using testing::LoopThread;
using testing::TempDir;

constexpr milliseconds kLong = std::chrono::hours(1);
constexpr milliseconds kPatience = std::chrono::seconds(20);

Rollout Numbered(int number, size_t bytes = 10) {
  Rollout rollout;
  rollout.request_id = fmt::format("id-{}", number);
  rollout.answer = "\"" + std::string(bytes, 'x') + "\"";
  return rollout;
}

// One process's recorder, on a loop of its own.
class Process {
 public:
  Process(const RecordOptions& options, const std::string& instance,
          const std::shared_ptr<AwaySwitch>& control = nullptr) {
    Recorder::OpenStore open;
    if (control) {
      open = [location = options.location, control] {
        return std::make_unique<AwayStore>(store::OpenStore(location), control);
      };
    }
    loop_.Do([&] { recorder_.emplace(loop_.loop(), options, events_, instance, open); });
  }
  ~Process() {
    if (run_) Stop(kPatience);
  }

  void Start() {
    run_.emplace(loop_.Spawn([this]() -> net::Task<void> { co_await recorder_->Run(); }));
  }
  void Stop(milliseconds limit) {
    loop_.Run([this, limit]() -> net::Task<void> { co_await recorder_->Stop(limit); });
    if (run_) run_->get();
    run_.reset();
  }
  bool Record(const Rollout& rollout) {
    return loop_.Do([&] { return recorder_->Record(rollout); });
  }
  void Rotate() {
    loop_.Do([&] { recorder_->Rotate(); });
  }
  std::optional<std::string> Find(const std::string& id) {
    return loop_.Run([this, id]() -> net::Task<std::optional<std::string>> {
      co_return co_await recorder_->Find(id);
    });
  }
  RecorderCounters Counters() {
    return loop_.Do([&] { return recorder_->counters(); });
  }
  template <typename Condition>
  bool Eventually(const Condition& condition) {
    return loop_.Eventually([&] { return condition(recorder_->counters()); });
  }
  size_t Events(std::string_view name) {
    return loop_.Do([&] {
      return static_cast<size_t>(std::ranges::count_if(events_.recent(), [&](const auto& line) {
        return line.find(fmt::format("\"{}\"", name)) != std::string::npos;
      }));
    });
  }

 private:
  LoopThread loop_;
  observe::EventLog events_;
  std::optional<Recorder> recorder_;
  std::optional<testing::Pending<void>> run_;
};

class RecorderTest : public ::testing::Test {
 protected:
  RecordOptions Options() const {
    RecordOptions options;
    options.location = dir_ / "store";
    options.spool = dir_ / "spool";
    options.rotate_interval = kLong;
    return options;
  }

  std::string Content(const std::string& key) {
    const std::string packed = store_->Get(key, 1 << 30).value();
    std::string lines;
    for (std::string_view rest = packed; !rest.empty();) {
      const size_t size = ZSTD_findFrameCompressedSize(rest.data(), rest.size());
      std::string frame(ZSTD_getFrameContentSize(rest.data(), rest.size()), '\0');
      EXPECT_EQ(ZSTD_decompress(frame.data(), frame.size(), rest.data(), size), frame.size());
      lines += frame;
      rest.remove_prefix(size);
    }
    return lines;
  }
  // How often each id is in the store.
  std::map<std::string, int> Stored() {
    std::map<std::string, int> ids;
    for (const std::string& key : store_->List("rollouts/")) {
      const std::string lines = Content(key);
      for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
        const auto line = std::string_view(lines).substr(at, lines.find('\n', at) - at);
        ++ids[std::string(IdOfLine(line))];
      }
    }
    return ids;
  }
  std::set<std::string> SpoolFiles(std::string_view suffix) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_ / "spool")) {
      const std::string name = entry.path().filename();
      if (name.ends_with(suffix)) names.insert(name);
    }
    return names;
  }
  static void ExpectIds(const std::map<std::string, int>& stored, int begin, int end) {
    EXPECT_EQ(stored.size(), static_cast<size_t>(end - begin));
    for (int i = begin; i < end; ++i) EXPECT_EQ(stored.count(Numbered(i).request_id), 1U) << i;
  }

  TempDir dir_;
  std::unique_ptr<store::Store> store_ = store::OpenStore(dir_ / "store");
  std::shared_ptr<AwaySwitch> control_ = std::make_shared<AwaySwitch>();
};

TEST_F(RecorderTest, UploadsAtItsEnd) {
  Process process(Options(), "gw");
  process.Start();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(process.Record(Numbered(i)));
  EXPECT_EQ(process.Counters().recorded, 100U);
  EXPECT_GT(process.Counters().spool_bytes, 1'000U);
  EXPECT_TRUE(Stored().empty());
  process.Stop(kPatience);
  ExpectIds(Stored(), 0, 100);
  const std::vector<std::string> keys = store_->List("");
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_TRUE(keys.front().ends_with("/gw-00000001.jsonl.zst")) << keys.front();
  EXPECT_TRUE(SpoolFiles(".jsonl").empty());
  const RecorderCounters counters = process.Counters();
  EXPECT_EQ(counters.uploaded_segments, 1U);
  EXPECT_EQ(counters.uploaded_lines, 100U);
  EXPECT_EQ(counters.spool_bytes, 0U);
  EXPECT_EQ(counters.spool_segments, 0U);
  EXPECT_FALSE(process.Record(Numbered(100)));
  EXPECT_EQ(process.Counters().refused, 1U);
}

TEST_F(RecorderTest, RotatesBySize) {
  RecordOptions options = Options();
  options.rotate_bytes = 10'000;
  Process process(options, "gw");
  process.Start();
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(process.Record(Numbered(i, 1'000)));
  EXPECT_TRUE(process.Eventually([](const auto& c) { return c.uploaded_segments >= 2; }));
  process.Stop(kPatience);
  EXPECT_GE(store_->List("rollouts/").size(), 3U);
  ExpectIds(Stored(), 0, 30);
}

TEST_F(RecorderTest, RotatesByAge) {
  RecordOptions options = Options();
  options.rotate_interval = milliseconds(1);
  Process process(options, "gw");
  process.Start();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(process.Record(Numbered(i)));
    EXPECT_TRUE(process.Eventually(
        [&](const auto& c) { return c.uploaded_lines == static_cast<uint64_t>(i) + 1; }));
  }
  ExpectIds(Stored(), 0, 3);
  EXPECT_EQ(store_->List("rollouts/").size(), 3U);
}

TEST_F(RecorderTest, FindsWhatItRecorded) {
  Process process(Options(), "gw");
  process.Start();
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(process.Record(Numbered(i)));
  const auto expect_all = [&] {
    for (int i = 0; i < 50; i += 7)
      EXPECT_EQ(process.Find(Numbered(i).request_id), ToLine(Numbered(i)));
    EXPECT_EQ(process.Find("id-50"), std::nullopt);
    EXPECT_EQ(process.Find("no id / at all"), std::nullopt);
    EXPECT_EQ(process.Find(""), std::nullopt);
  };
  expect_all();
  process.Rotate();
  EXPECT_TRUE(process.Eventually([](const auto& c) { return c.spool_bytes == 0; }));
  expect_all();
  Rollout again = Numbered(7);
  again.island = "another";
  EXPECT_TRUE(process.Record(again));
  EXPECT_EQ(process.Find("id-7"), ToLine(again));
  EXPECT_EQ(process.Counters().indexed, 50U);
}

TEST_F(RecorderTest, FindsWhatAnEarlierProcessUploaded) {
  {
    Process process(Options(), "one");
    process.Start();
    EXPECT_TRUE(process.Record(Numbered(1)));
  }
  EXPECT_EQ(SpoolFiles(".ids").size(), 1U);
  Process process(Options(), "two");
  EXPECT_EQ(process.Find("id-1"), ToLine(Numbered(1)));
  for (const std::string& key : store_->List("")) store_->Delete(key);
  EXPECT_EQ(process.Find("id-1"), std::nullopt);
}

TEST_F(RecorderTest, ForgetsOldIds) {
  RecordOptions options = Options();
  options.max_index_bytes = 20'000;
  {
    Process process(options, "gw");
    process.Start();
    for (int i = 0; i < 1'000; ++i) {
      EXPECT_TRUE(process.Record(Numbered(i)));
      if (i % 50 == 49) process.Rotate();
    }
    EXPECT_TRUE(process.Eventually([](const auto& c) { return c.spool_bytes == 0; }));
    EXPECT_EQ(process.Find("id-0"), std::nullopt);
    EXPECT_EQ(process.Find("id-999"), ToLine(Numbered(999)));
    EXPECT_LT(process.Counters().indexed, 250U);
  }
  EXPECT_LT(SpoolFiles(".ids").size(), 6U);
  ExpectIds(Stored(), 0, 1'000);
}

TEST_F(RecorderTest, WaitsForAStoreThatIsAway) {
  control_->away = true;
  Process process(Options(), "gw", control_);
  process.Start();
  EXPECT_TRUE(process.Record(Numbered(0)));
  process.Rotate();
  EXPECT_TRUE(process.Eventually([](const auto& c) { return c.upload_failures >= 1; }));
  EXPECT_GE(process.Events("rollouts_upload_failed"), 1U);
  EXPECT_TRUE(process.Record(Numbered(1)));
  EXPECT_EQ(process.Find("id-0"), ToLine(Numbered(0)));
  EXPECT_EQ(process.Find("id-1"), ToLine(Numbered(1)));
  control_->away = false;
  EXPECT_TRUE(process.Eventually([](const auto& c) { return c.uploaded_lines == 1; }));
  control_->away = true;
  ExpectError(
      ErrorCode::kUnavailable, [&] { process.Find("id-0"); }, "away");
  control_->away = false;
  process.Stop(kPatience);
  ExpectIds(Stored(), 0, 2);
}

TEST_F(RecorderTest, LeavesToTheNextProcessWhatItCannotUpload) {
  control_->away = true;
  {
    Process process(Options(), "one", control_);
    process.Start();
    EXPECT_TRUE(process.Record(Numbered(0)));
    process.Stop(milliseconds(1));
    EXPECT_EQ(process.Counters().spool_segments, 1U);
  }
  EXPECT_EQ(SpoolFiles(".jsonl").size(), 1U);
  Process process(Options(), "two");
  EXPECT_EQ(process.Find("id-0"), ToLine(Numbered(0)));
  EXPECT_EQ(process.Events("rollouts_recovered"), 1U);
  process.Start();
  EXPECT_TRUE(process.Record(Numbered(1)));
  process.Stop(kPatience);
  ExpectIds(Stored(), 0, 2);
  EXPECT_TRUE(SpoolFiles(".jsonl").empty());
}

TEST_F(RecorderTest, TakesAnObjectThatIsThereForItsOwn) {
  control_->answers_to_lose = 1;
  Process process(Options(), "gw", control_);
  process.Start();
  EXPECT_TRUE(process.Record(Numbered(0)));
  process.Stop(kPatience);
  EXPECT_EQ(control_->creates, 2);
  EXPECT_EQ(process.Counters().upload_failures, 1U);
  EXPECT_EQ(store_->List("").size(), 1U);
}

TEST_F(RecorderTest, UploadsAgainAfterACrashBeforeTheRemoval) {
  std::string name;
  std::string lines;
  {
    Process process(Options(), "gw");
    EXPECT_TRUE(process.Record(Numbered(0)));
    name = *SpoolFiles(".jsonl").begin();
    lines = ReadFile(dir_ / "spool" / name, 1 << 20);
    process.Start();
    process.Stop(kPatience);
  }
  dir_.Write("spool/" + name, lines);
  Process process(Options(), "gw");
  EXPECT_EQ(process.Find("id-0"), ToLine(Numbered(0)));
  process.Start();
  EXPECT_TRUE(process.Record(Numbered(1)));
  process.Stop(kPatience);
  const std::map<std::string, int> stored = Stored();
  ExpectIds(stored, 0, 2);
  EXPECT_EQ(stored.at("id-0"), 1);
}

TEST_F(RecorderTest, CutsATornLine) {
  {
    Process process(Options(), "gw");
    EXPECT_TRUE(process.Record(Numbered(0)));
  }
  const std::string name = *SpoolFiles(".jsonl").begin();
  const std::string lines = ReadFile(dir_ / "spool" / name, 1 << 20);
  dir_.Write("spool/" + name, lines + lines.substr(0, 20));
  dir_.Write("spool/2026-01-31.gw-7.jsonl", "torn");
  dir_.Write("spool/2026-01-31.gw-8.ids", "torn");
  dir_.Write("spool/notes.txt", "mine");
  Process process(Options(), "gw");
  process.Start();
  process.Stop(kPatience);
  ExpectIds(Stored(), 0, 1);
  EXPECT_TRUE(SpoolFiles(".jsonl").empty());
  EXPECT_EQ(SpoolFiles(".ids").size(), 1U);
  EXPECT_EQ(SpoolFiles(".txt").size(), 1U);
}

TEST_F(RecorderTest, RefusesBeyondTheSpoolsBound) {
  control_->away = true;
  RecordOptions options = Options();
  options.max_spool_bytes = 5'000;
  Process process(options, "gw", control_);
  process.Start();
  int kept = 0;
  while (process.Record(Numbered(kept, 1'000))) ++kept;
  EXPECT_EQ(kept, 4);
  EXPECT_FALSE(process.Record(Numbered(100, 1'000)));
  EXPECT_EQ(process.Counters().refused, 2U);
  EXPECT_EQ(process.Events("rollouts_refused"), 1U);
  EXPECT_LE(process.Counters().spool_bytes, 5'000U);
  control_->away = false;
  EXPECT_TRUE(process.Eventually([](const auto& c) { return c.spool_bytes == 0; }));
  EXPECT_TRUE(process.Record(Numbered(kept)));
  process.Stop(kPatience);
  ExpectIds(Stored(), 0, kept + 1);
}

TEST_F(RecorderTest, RefusesLongLinesAndBadIds) {
  RecordOptions options = Options();
  options.max_line_bytes = 1'000;
  Process process(options, "gw");
  EXPECT_FALSE(process.Record(Numbered(0, 1'000)));
  Rollout unnamed = Numbered(0);
  unnamed.request_id = "a b";
  EXPECT_FALSE(process.Record(unnamed));
  EXPECT_EQ(process.Counters().refused, 2U);
  EXPECT_TRUE(SpoolFiles(".jsonl").empty());
}

// As a full disk: the part of a line that found a place is taken back.
TEST_F(RecorderTest, TakesBackALineThatDoesNotFitOnTheDisk) {
  Process process(Options(), "gw");
  process.Start();
  EXPECT_TRUE(process.Record(Numbered(0)));
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {2'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_FALSE(process.Record(Numbered(1, 5'000)));
  EXPECT_TRUE(process.Record(Numbered(2)));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(process.Counters().refused, 1U);
  EXPECT_EQ(process.Find("id-2"), ToLine(Numbered(2)));
  EXPECT_EQ(process.Find("id-1"), std::nullopt);
  process.Stop(kPatience);
  EXPECT_EQ(Stored(), (std::map<std::string, int>{{"id-0", 1}, {"id-2", 1}}));
}

TEST_F(RecorderTest, SyncsEachLineIfToldSo) {
  RecordOptions options = Options();
  options.sync = true;
  Process process(options, "gw");
  process.Start();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(process.Record(Numbered(i)));
  process.Stop(kPatience);
  ExpectIds(Stored(), 0, 3);
}

TEST_F(RecorderTest, HasItsSpoolForItself) {
  Process process(Options(), "gw");
  ExpectError(
      ErrorCode::kConflict, [&] { Process(Options(), "other"); }, "spool");
}

TEST_F(RecorderTest, RefusesWrongOptions) {
  for (const std::string instance : {"", ".", "a/b", "a b"}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { Process(Options(), instance); }, "instance");
  }
  RecordOptions options = Options();
  options.location = "ftp://x";
  ExpectError(ErrorCode::kInvalid, [&] { Process(options, "gw"); });
}

TEST_F(RecorderTest, FindsWhileSegmentsBecomeObjects) {
  RecordOptions options = Options();
  options.rotate_bytes = 2'000;
  Process process(options, "gw");
  process.Start();
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(process.Record(Numbered(i, 100)));
    for (const int back : {0, 3, 10, 30}) {
      if (back > i) continue;
      const Rollout rollout = Numbered(i - back, 100);
      EXPECT_EQ(process.Find(rollout.request_id), ToLine(rollout));
    }
  }
  process.Stop(kPatience);
  ExpectIds(Stored(), 0, 200);
}

}  // namespace
}  // namespace isthmus::gateway
