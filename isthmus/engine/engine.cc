#include "isthmus/engine/engine.h"

#include "isthmus/base/error.h"
#include "isthmus/engine/adapters.h"

namespace isthmus::engine {
namespace {

using Maker = std::unique_ptr<Engine> (*)(net::Loop&, const EngineSpec&, const EngineOptions&);

struct Kind {
  std::string_view name;
  Maker make;
};

constexpr Kind kKinds[] = {
    {"vllm", MakeVllm}, {"sglang", MakeSglang}, {"command", MakeCommand}, {"webhook", MakeWebhook}};

void CheckLimits(const EngineLimits& limits) {
  for (const net::Milliseconds limit :
       {limits.probe, limits.inspect, limits.settle, limits.pause, limits.load, limits.flush,
        limits.verify, limits.resume, limits.canary}) {
    if (limit > net::Milliseconds(0)) continue;
    Throw(ErrorCode::kInvalid, "engine: a limit of {} ms, allowed is more than zero",
          limit.count());
  }
}

}  // namespace

Task<std::string> Engine::Learn(fs::path /*checkpoint*/, std::string /*digest*/) {
  co_return name() + " loads whole checkpoints only";
}

Task<void> Engine::PrepareChanges(Changes /*step*/) { co_return; }

Task<void> Engine::LoadChanges(std::vector<Changes> /*steps*/) {
  Throw(ErrorCode::kInternal, "{}: changes were sent to an engine that did not learn", name());
  co_return;
}

EngineSpec EngineSpec::Parse(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos || colon == 0 || colon + 1 == text.size()) {
    Throw(ErrorCode::kInvalid,
          "engine {:?}: expected KIND:TARGET, such as "
          "vllm:http://127.0.0.1:8000",
          text);
  }
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

std::unique_ptr<Engine> MakeEngine(net::Loop& loop, const EngineSpec& spec,
                                   const EngineOptions& options) {
  CheckLimits(options.limits);
  for (const Kind& kind : kKinds) {
    if (kind.name == spec.kind) return kind.make(loop, spec, options);
  }
  Throw(ErrorCode::kInvalid, "engine {:?}: kinds are vllm, sglang, command and webhook", spec.kind);
}

}  // namespace isthmus::engine
