// The engines that the conformance suite of the engine port runs against, and its fixture.
#ifndef ISTHMUS_TESTS_SUPPORT_ENGINE_TARGETS_H_
#define ISTHMUS_TESTS_SUPPORT_ENGINE_TARGETS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/digest.h"
#include "isthmus/engine/engine.h"
#include "tests/support/checkpoints.h"
#include "tests/support/engine_process.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::testing {

struct EngineTarget {
  std::string kind;
  std::string script;
  std::string generate;  // the route
  std::vector<std::string> needed;
  std::vector<std::string> optional;
  // The routes that each call of the port uses, in order; "Wait" is Pause(kWait).
  std::map<std::string, std::vector<std::string>> routes;
};

// For the names of tests.
inline void PrintTo(const EngineTarget& target, std::ostream* out) { *out << target.kind; }

inline EngineTarget VllmTarget() {
  return {"vllm",
          "tests/engines/vllm_double.py",
          "/v1/completions",
          {"/pause", "/resume", "/is_paused", "/collective_rpc", "/reset_prefix_cache"},
          {"/weight_info", "/update_weight_version", "/reset_mm_cache", "/reset_encoder_cache",
           "/is_sleeping", "/get_world_size", "/v1/completions"},
          {{"Probe", {"/openapi.json", "/get_world_size"}},
           {"Inspect", {"/is_paused", "/weight_info"}},
           {"Settle", {"/collective_rpc"}},
           {"Wait", {"/pause"}},
           {"Pause", {"/is_paused", "/is_sleeping", "/pause"}},
           {"Load", {"/collective_rpc", "/update_weight_version"}},
           {"Flush", {"/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache"}},
           {"Verify", {"/weight_info"}},
           {"Resume", {"/is_paused", "/resume"}},
           {"Canary", {"/v1/models", "/v1/completions"}}}};
}

inline EngineTarget SglangTarget() {
  return {"sglang",
          "tests/engines/sglang_double.py",
          "/generate",
          {"/pause_generation", "/continue_generation", "/update_weights_from_disk", "/flush_cache",
           "/model_info", "/server_info", "/v1/loads"},
          {"/ready", "/generate"},
          {{"Probe", {"/openapi.json", "/model_info"}},
           {"Inspect", {"/ready", "/model_info"}},
           {"Settle", {"/server_info"}},
           {"Wait", {"/ready", "/v1/loads", "/pause_generation", "/flush_cache"}},
           {"Pause", {"/pause_generation", "/flush_cache"}},
           {"Load", {"/update_weights_from_disk"}},
           {"Flush", {"/flush_cache"}},
           {"Verify", {"/model_info"}},
           {"Resume", {"/ready", "/continue_generation"}},
           {"Canary", {"/generate"}}}};
}

// An engine driven through the port, with two checkpoints to switch between.
class EngineDriver {
 public:
  explicit EngineDriver(const EngineTarget& target, engine::EngineLimits limits = {},
                        std::vector<std::string> arguments = {})
      : target_(target) {
    for (const char* name : {"v1", "v2"}) {
      const std::string shard = RandomShard({{"a", 100}, {"b", 200}});
      digests_[name] = Sha256(AsBytes(shard)).Hex();
      dir_.Write(std::string(name) + "/model.safetensors", shard);
    }
    arguments.insert(arguments.begin(), checkpoint("v1").string());
    process_.emplace(target.script, arguments);
    Connect(limits);
  }
  ~EngineDriver() {
    loop_.Do([&] { engine_.reset(); });
  }
  EngineDriver(const EngineDriver&) = delete;
  EngineDriver& operator=(const EngineDriver&) = delete;

  // A new adapter, as after a restart of the sidecar.
  void Connect(engine::EngineLimits limits, std::string token = {}) {
    loop_.Do([&] {
      const engine::EngineSpec spec = {target_.kind, process_->url()};
      engine_ = engine::MakeEngine(loop_.loop(), spec, {limits, std::move(token), nullptr});
    });
  }

  EngineDouble& process() { return *process_; }
  LoopThread& loop() { return loop_; }
  engine::Engine& engine() { return *engine_; }
  fs::path checkpoint(std::string_view version) const { return dir_ / version; }
  std::string digest(std::string_view version) const { return digests_.at(std::string(version)); }

  engine::Abilities Probe() {
    return loop_.Run([this] { return engine_->Probe(); });
  }
  engine::EngineState Inspect() {
    return loop_.Run([this] { return engine_->Inspect(); });
  }
  Pending<void> Start(net::Task<void> (engine::Engine::*call)()) {
    return loop_.Spawn([this, call] { return (engine_.get()->*call)(); });
  }
  Pending<void> StartPause(engine::PauseMode mode) {
    return loop_.Spawn([this, mode] { return engine_->Pause(mode); });
  }
  void Pause(engine::PauseMode mode = engine::PauseMode::kKeep) { StartPause(mode).get(); }
  Pending<void> StartLoad(std::string_view version) {
    return loop_.Spawn([this, path = checkpoint(version), label = std::string(version)] {
      return engine_->Load(path, label);
    });
  }
  void Load(std::string_view version) { StartLoad(version).get(); }
  void Settle() { Start(&engine::Engine::Settle).get(); }
  void Flush() { Start(&engine::Engine::Flush).get(); }
  void Resume() { Start(&engine::Engine::Resume).get(); }
  void Verify(std::string_view version) {
    loop_.Run([this, label = std::string(version)] { return engine_->Verify(label); });
  }
  std::optional<double> Canary() {
    return loop_.Run([this] { return engine_->Canary(); });
  }
  // Calls the port by name, with the second version where one is needed.
  void Call(std::string_view name) {
    if (name == "Probe") Probe();
    if (name == "Inspect") Inspect();
    if (name == "Settle") Settle();
    if (name == "Wait") Pause(engine::PauseMode::kWait);
    if (name == "Pause") Pause();
    if (name == "Load") Load("v2");
    if (name == "Flush") Flush();
    if (name == "Verify") Verify("v2");
    if (name == "Resume") Resume();
    if (name == "Canary") Canary();
  }
  void Switch(std::string_view version, engine::PauseMode mode = engine::PauseMode::kKeep) {
    Pause(mode);
    Load(version);
    Flush();
    Verify(version);
    Resume();
    Canary();
  }

  // Begins a generation of so many tokens.
  Pending<EngineProcess::Reply> Generate(int tokens) {
    boost::json::object body = {{"prompt", {7, 8, 9}}, {"max_tokens", tokens}};
    if (target_.kind == "sglang") {
      body = {{"input_ids", {7, 8, 9}}, {"sampling_params", {{"max_new_tokens", tokens}}}};
    }
    return process_->Start("POST", target_.generate, boost::json::serialize(body));
  }

 private:
  EngineTarget target_;
  TempDir dir_;
  std::map<std::string, std::string> digests_;
  std::optional<EngineDouble> process_;
  LoopThread loop_;
  std::unique_ptr<engine::Engine> engine_;
};

// What a double says of one token (tests/engines/generation.py).
struct TokenProof {
  std::string digest;           // of the weights that made it
  std::vector<std::string> kv;  // and of those that made what it attends to
};

inline std::vector<TokenProof> ProofsOf(const EngineProcess::Reply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  const boost::json::value answer = boost::json::parse(reply.body);
  boost::system::error_code none;
  const boost::json::value* proof = answer.find_pointer("/choices/0/_double", none);
  if (proof == nullptr) proof = answer.find_pointer("/_double", none);
  std::vector<TokenProof> proofs;
  for (const boost::json::value& token : proof->as_array()) {
    TokenProof& one = proofs.emplace_back();
    one.digest = token.at("digest").as_string().c_str();
    for (const boost::json::value& kv : token.at("kv").as_array()) {
      one.kv.emplace_back(kv.as_string().c_str());
    }
  }
  return proofs;
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_ENGINE_TARGETS_H_
