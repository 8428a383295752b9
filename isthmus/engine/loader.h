// An engine of which only the load is known: the base of the command and the webhook.
#ifndef ISTHMUS_ENGINE_LOADER_H_
#define ISTHMUS_ENGINE_LOADER_H_

#include <optional>
#include <string>
#include <utility>

#include "isthmus/engine/engine.h"

namespace isthmus::engine {

// Everything but Probe and Load succeeds and does nothing.
class Loader : public Engine {
 public:
  explicit Loader(std::string name) : name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  const std::optional<net::Origin>& origin() const override { return origin_; }

  Task<EngineState> Inspect() override { co_return EngineState(); }
  Task<void> Settle() override { co_return; }
  Task<void> Pause(PauseMode /*mode*/) override { co_return; }
  Task<void> Flush() override { co_return; }
  Task<void> Verify(std::string /*label*/) override { co_return; }
  Task<void> Resume() override { co_return; }
  Task<std::optional<double>> Canary() override { co_return std::nullopt; }

 private:
  std::string name_;
  std::optional<net::Origin> origin_;
};

}  // namespace isthmus::engine

#endif  // ISTHMUS_ENGINE_LOADER_H_
