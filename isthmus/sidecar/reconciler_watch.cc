// Looking at the engines while they serve.
#include "isthmus/base/error.h"
#include "isthmus/sidecar/reconciler.h"

namespace isthmus::sidecar {
namespace {

using net::Task;

// A single unanswered look can be a moment of load.
constexpr size_t kFailedLooks = 3;

}  // namespace

// Beside all else: a stage takes minutes, and an engine that is replaced meanwhile must be noticed.
Task<void> Reconciler::Watch() {
  while (!stopping_) {
    if (MonotonicNow() < next_look_) {
      co_await Rest(&watch_timer_, next_look_);
      continue;
    }
    looked_at_ = MonotonicNow();
    next_look_ = looked_at_ + options_.inspect;
    if (keeper_.gate().state() != GateState::kReady || engines_taken_) continue;
    looking_ = true;
    co_await LookAtEngines();
    looking_ = false;
    looked_.Fire();
  }
}

// Engines take one call at a time. A switch waits for the look that settles a doubt: answers that
// wait for it too would keep the gate from closing.
Task<void> Reconciler::TakeEngines() {
  while (looking_ || (Serving() && !presence_.proven())) co_await looked_.Wait();
  engines_taken_ = true;
}

// Engines that died, were replaced or were switched by somebody else must not be sent requests.
Task<void> Reconciler::LookAtEngines() {
  std::vector<engine::EngineState> states;
  std::string failure;
  std::string gone;
  try {
    co_await presence_.Arm();  // first: whoever ends after its answer cuts a wire
  } catch (const Error& error) {
    gone = error.what();
  }
  if (!Serving()) co_return;
  if (!gone.empty()) co_return LoseEngines(gone);
  try {
    states = co_await engines_.Inspect();
    failure = SilenceOf(states);
  } catch (const Error& error) {
    failure = error.what();
  }
  if (!Serving()) co_return;
  if (!failure.empty()) {
    if (++failed_looks_ >= kFailedLooks) co_return LoseEngines(failure);
    next_look_ = MonotonicNow() + options_.inspect / 4;
    co_return;
  }
  failed_looks_ = 0;
  if (const auto problem = ProblemWith(states)) co_return LoseEngines(*problem);
  presence_.Prove();
  if (!presence_.proven()) LookNow();
}

// Answers wait for this look.
void Reconciler::LookNow() {
  next_look_ = MonotonicNow();
  watch_timer_.cancel();
}

// An engine that has said before whether it is paused, and says so no longer, is paused or ill.
std::string Reconciler::SilenceOf(const std::vector<engine::EngineState>& states) {
  tells_pause_.resize(states.size());
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].paused) {
      tells_pause_[i] = true;
    } else if (tells_pause_[i]) {
      return fmt::format("{} does not say that it generates", engines_.engines()[i]->name());
    }
  }
  return "";
}

std::optional<std::string> Reconciler::ProblemWith(
    const std::vector<engine::EngineState>& states) const {
  const std::string label = std::to_string(keeper_.gate().served());
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string& name = engines_.engines()[i]->name();
    if (states[i].paused.value_or(false)) {
      return fmt::format("{} was paused by somebody else", name);
    }
    if (states[i].label && *states[i].label != label) {
      return fmt::format("{} says that it holds \"{}\", version {} was loaded into it", name,
                         *states[i].label, label);
    }
  }
  return std::nullopt;
}

void Reconciler::LoseEngines(const std::string& reason) {
  events_.Write("engine_lost", {{"reason", reason}});
  failed_looks_ = 0;
  presence_.Doubt();
  keeper_.Boot();
  SetPhase(Phase::kBooting, reason);
  retry_at_ = MonotonicNow();
  timer_.cancel();
}

}  // namespace isthmus::sidecar
