// The vLLM adapter against examples/refengine, which computes: what it serves is seen in its
// log-probabilities.

#include <gtest/gtest.h>

#include "isthmus/engine/engine.h"
#include "tests/support/engine_process.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::engine {
namespace {

using isthmus::testing::EngineProcess;
using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;
using isthmus::testing::TempDir;

class RefengineTest : public ::testing::Test {
 public:
  RefengineTest() {
    for (const char* seed : {"1", "2"}) {
      const std::string make =
          fmt::format("{} {}/examples/refengine/make_model.py {} --seed {}", ISTHMUS_PYTHON,
                      ISTHMUS_SOURCE_DIR, (dir_ / (std::string("v") + seed)).string(), seed);
      EXPECT_EQ(std::system(make.c_str()), 0);
    }
    process_.emplace("examples/refengine", Serving("v1"));
    loop_.Do([&] { engine_ = MakeEngine(loop_.loop(), {"vllm", process_->url()}, {}); });
  }
  ~RefengineTest() override {
    loop_.Do([&] { engine_.reset(); });
  }

 protected:
  std::vector<std::string> Serving(std::string_view version) const {
    return {(dir_ / version).string(), "--port", "0", "--served-model-name", "policy"};
  }
  static std::string LogProbabilities(EngineProcess& process) {
    const boost::json::value answer = process.Post(
        "/v1/completions",
        {{"prompt", {7, 8, 9}}, {"max_tokens", 4}, {"temperature", 0}, {"logprobs", 0}});
    return boost::json::serialize(answer.at("choices").at(0).at("logprobs").at("token_logprobs"));
  }
  template <typename Call>
  auto Run(Call call) {
    return loop_.Run([&] { return call(*engine_); });
  }
  // The canary's number.
  std::optional<double> Switch(const std::string& version, PauseMode mode) {
    return Run([&](Engine& engine) -> Task<std::optional<double>> {
      co_await engine.Pause(mode);
      co_await engine.Load(dir_ / version, version);
      co_await engine.Flush();
      co_await engine.Verify(version);
      co_await engine.Resume();
      std::optional<double> number = co_await engine.Canary();
      co_return number;
    });
  }

  TempDir dir_;
  std::optional<EngineProcess> process_;
  LoopThread loop_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(RefengineTest, SwitchesThereAndBack) {
  const Abilities abilities = Run([](Engine& engine) { return engine.Probe(); });
  EXPECT_TRUE(abilities.keeps && abilities.labels && abilities.generates);
  Run([](Engine& engine) { return engine.Settle(); });
  EngineProcess other("examples/refengine", Serving("v2"));
  const std::string v1 = LogProbabilities(*process_);
  const std::string v2 = LogProbabilities(other);
  ASSERT_NE(v1, v2);
  const auto first = Run([](Engine& engine) { return engine.Canary(); });
  for (PauseMode mode : {PauseMode::kKeep, PauseMode::kWait, PauseMode::kAbort}) {
    EXPECT_NE(Switch("v2", mode), first);
    EXPECT_EQ(LogProbabilities(*process_), v2);
    EXPECT_EQ(Switch("v1", mode), first);
    EXPECT_EQ(LogProbabilities(*process_), v1);
  }
}

TEST_F(RefengineTest, KeptRequestsGoOn) {
  Run([](Engine& engine) { return engine.Probe(); });
  auto reply = process_->Start(
      "POST", "/v1/completions",
      R"({"prompt":[1,2,3],"max_tokens":300,"seed":1,"ignore_eos":true,"return_token_ids":true})");
  EngineProcess::Await([&] { return process_->Get("/load").at("server_load") == 1; }, "a request");
  Switch("v2", PauseMode::kKeep);
  const boost::json::value answer = boost::json::parse(reply.get().body);
  EXPECT_EQ(answer.at("choices").at(0).at("token_ids").as_array().size(), 300U);
}

TEST_F(RefengineTest, ACheckpointThatIsNotThereIsAnErrorAndLeavesItPaused) {
  Run([](Engine& engine) { return engine.Probe(); });
  Run([](Engine& engine) { return engine.Pause(PauseMode::kKeep); });
  ExpectError(
      ErrorCode::kUnavailable,
      [&] { Run([&](Engine& engine) { return engine.Load(dir_ / "v3", "v3"); }); },
      "POST /collective_rpc", "500");
  EXPECT_EQ(Run([](Engine& engine) { return engine.Inspect(); }).paused, true);
}

}  // namespace
}  // namespace isthmus::engine
