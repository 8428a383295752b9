// The adapters, for MakeEngine. Each lives in the .cc file of its name; docs/engines.md says what
// they send.
#ifndef ISTHMUS_ENGINE_ADAPTERS_H_
#define ISTHMUS_ENGINE_ADAPTERS_H_

#include <memory>

#include "isthmus/engine/engine.h"

namespace isthmus::engine {

std::unique_ptr<Engine> MakeVllm(net::Loop& loop, const EngineSpec& spec,
                                 const EngineOptions& options);
std::unique_ptr<Engine> MakeSglang(net::Loop& loop, const EngineSpec& spec,
                                   const EngineOptions& options);
std::unique_ptr<Engine> MakeCommand(net::Loop& loop, const EngineSpec& spec,
                                    const EngineOptions& options);
std::unique_ptr<Engine> MakeWebhook(net::Loop& loop, const EngineSpec& spec,
                                    const EngineOptions& options);

}  // namespace isthmus::engine

#endif  // ISTHMUS_ENGINE_ADAPTERS_H_
