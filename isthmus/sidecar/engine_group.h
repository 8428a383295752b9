// The engines of one island, driven as one.
#ifndef ISTHMUS_SIDECAR_ENGINE_GROUP_H_
#define ISTHMUS_SIDECAR_ENGINE_GROUP_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/engine/engine.h"
#include "isthmus/net/task.h"

namespace isthmus::sidecar {

// Each step is made on all engines at once and ends when it has ended on all, also if it failed on
// one: a step that is still running somewhere must never meet the next one. Then the first error,
// in the engines' order, is thrown. So a switch is of all or, after a failure, of nobody knows
// which.
class EngineGroup {
 public:
  // At least one engine.
  EngineGroup(net::Loop& loop, std::vector<std::unique_ptr<engine::Engine>> engines);

  const std::vector<std::unique_ptr<engine::Engine>>& engines() const { return engines_; }
  std::string names() const;  // joined by ", "

  // What all engines can do. kInvalid if they take different cache salt fields.
  net::Task<engine::Abilities> Probe();
  // In the engines' order.
  net::Task<std::vector<engine::EngineState>> Inspect();
  net::Task<void> Settle();
  net::Task<void> Pause(engine::PauseMode mode);
  net::Task<void> Load(const fs::path& checkpoint, const std::string& label);
  // Empty if all engines have learned; else why one has not.
  net::Task<std::string> Learn(const fs::path& checkpoint, const std::string& digest);
  net::Task<void> PrepareChanges(const engine::Changes& step);
  net::Task<void> LoadChanges(const std::vector<engine::Changes>& steps);
  net::Task<void> Flush();
  net::Task<void> Verify(const std::string& label);
  net::Task<void> Resume();
  // The log-probabilities, in the engines' order.
  net::Task<std::vector<std::optional<double>>> Canary();

 private:
  using Step = std::function<net::Task<void>(size_t index)>;
  net::Task<void> OnAll(Step step);
  net::Task<void> OnOne(Step& step, size_t index);

  net::Loop& loop_;
  std::vector<std::unique_ptr<engine::Engine>> engines_;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_ENGINE_GROUP_H_
