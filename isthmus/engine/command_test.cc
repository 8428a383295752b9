#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <fstream>

#include "isthmus/engine/engine.h"
#include "tests/support/errors.h"
#include "tests/support/net.h"
#include "tests/support/temp_dir.h"

namespace isthmus::engine {
namespace {

using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;
using isthmus::testing::Pending;
using isthmus::testing::TempDir;

// A shell script as the program of an engine; what it writes to "out" in its folder is read back.
class CommandTest : public ::testing::Test {
 public:
  ~CommandTest() override {
    loop_.Do([&] { engine_.reset(); });
  }

 protected:
  void Use(std::string_view script, net::Milliseconds limit = net::Milliseconds(20'000)) {
    const fs::path program =
        dir_.Write("load.sh", "#!/bin/sh\ncd \"${0%/*}\"\n" + std::string(script) + "\n");
    fs::permissions(program, fs::perms::owner_all);
    EngineOptions options;
    options.limits.load = limit;
    loop_.Do([&] { engine_ = MakeEngine(loop_.loop(), {"command", program.string()}, options); });
  }
  Pending<void> Load() {
    return loop_.Spawn([this] { return engine_->Load("/a b/v2", "label; $(x)"); });
  }
  bool Has(std::string_view name) const { return fs::exists(dir_ / name); }
  // Waits until the script has written that file, in full.
  std::string Read(std::string_view name) const {
    for (int i = 0; i < 4000; ++i) {
      std::ifstream in(dir_ / name);
      std::string line;
      if (std::getline(in, line) && !in.eof()) return line;
      poll(nullptr, 0, 5);
    }
    return "never";
  }

  // Whether the process whose number is in that file ends. An orphan is reaped by somebody else, in
  // its time.
  bool IsGone(std::string_view name) {
    const std::string path = fmt::format("/proc/{}/stat", Read(name));
    return loop_.Eventually([&] {
      std::ifstream stat(path);
      std::string line;
      std::getline(stat, line);
      return line.empty() || line.find(") Z") != line.npos;
    });
  }

  TempDir dir_;
  LoopThread loop_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(CommandTest, GetsThePathAndTheLabelAsTheyAre) {
  Use(R"(printf '%s|' "$#" "$@" > out; echo >> out; echo fine; echo also >&2)");
  const Abilities abilities = loop_.Run([&] { return engine_->Probe(); });
  EXPECT_FALSE(abilities.pauses || abilities.labels || abilities.generates);
  Load().get();
  EXPECT_EQ(Read("out"), "2|/a b/v2|label; $(x)|");
}

TEST_F(CommandTest, AnotherStatusIsAnErrorWithItsLastWords) {
  Use(R"(echo first >&2; printf 'no space "left"\n\n \n' >&2; exit 3)");
  ExpectError(
      ErrorCode::kUnavailable, [&] { Load().get(); }, "load /a b/v2", "exited with status 3",
      R"("no space \"left\"")");
  Use("echo one line only >&2; exit 1");
  ExpectError(
      ErrorCode::kUnavailable, [&] { Load().get(); }, "\"one line only\"");
  Use("kill -9 $$");
  ExpectError(
      ErrorCode::kUnavailable, [&] { Load().get(); }, "was ended by signal 9", "last words: \"\"");
}

TEST_F(CommandTest, MuchThatIsSaidHoldsNothingUp) {
  Use("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo the end >&2; exit 1");
  ExpectError(
      ErrorCode::kUnavailable, [&] { Load().get(); }, "\"the end\"");
}

TEST_F(CommandTest, TheLoopGoesOnMeanwhile) {
  Use("while [ ! -e go ]; do sleep 0.01; done");
  auto load = Load();
  loop_.Do([] {});
  dir_.Write("go", "");
  load.get();
}

TEST_F(CommandTest, AtTheDeadlineItIsAskedToEnd) {
  Use("trap 'echo asked > asked; exit 0' TERM; echo > up; while :; do sleep 0.01; done",
      net::Milliseconds(1500));
  ExpectError(
      ErrorCode::kUnavailable, [&] { Load().get(); }, "did not end within 1500 ms");
  EXPECT_EQ(Read("asked"), "asked");
}

TEST_F(CommandTest, WhatDoesNotEndIsKilledWithAllThatItStarted) {
  Use("trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.01; done' & "
      "echo $$ > leader; while :; do sleep 0.01; done",
      net::Milliseconds(1500));
  ExpectError(
      ErrorCode::kUnavailable, [&] { Load().get(); }, "did not end");
  EXPECT_TRUE(IsGone("leader"));
  EXPECT_TRUE(IsGone("child"));
}

TEST_F(CommandTest, WhatItLeavesBehindAtTheDeadlineIsKilled) {
  Use("trap 'exit 0' TERM; sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.01; done' & "
      "while :; do sleep 0.01; done",
      net::Milliseconds(1500));
  ExpectError(
      ErrorCode::kUnavailable, [&] { Load().get(); }, "did not end");
  EXPECT_TRUE(IsGone("child"));
}

TEST_F(CommandTest, ASidecarThatEndsTakesItAlong) {
  Use("echo $$ > leader; while :; do sleep 0.01; done");
  {
    std::unique_ptr<Engine> engine;
    LoopThread other;
    other.Do([&] {
      engine = MakeEngine(other.loop(), {"command", (dir_ / "load.sh").string()}, {});
    });
    auto load = other.Spawn([&] { return engine->Load("/v2", "v2"); });
    EXPECT_NE(Read("leader"), "never");
  }
  EXPECT_TRUE(IsGone("leader"));
}

TEST_F(CommandTest, InheritsNoFilesAndNoSignals) {
  Use("ls /proc/self/fd | wc -l > out; grep SigBlk /proc/self/status | cut -f 2 > signals");
  Load().get();
  // Three, and the one that ls reads with.
  EXPECT_EQ(Read("out"), "4");
  EXPECT_EQ(Read("signals"), "0000000000000000");
}

TEST_F(CommandTest, AProgramThatIsNotThereIsInvalid) {
  loop_.Do([&] { engine_ = MakeEngine(loop_.loop(), {"command", "/no/such/program"}, {}); });
  ExpectError(
      ErrorCode::kInvalid, [&] { loop_.Run([&] { return engine_->Probe(); }); }, "/no/such/program",
      "No such file");
  ExpectError(
      ErrorCode::kInvalid, [&] { Load().get(); }, "/no/such/program", "No such file");
}

}  // namespace
}  // namespace isthmus::engine
