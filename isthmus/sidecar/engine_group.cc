#include "isthmus/sidecar/engine_group.h"

#include <fmt/ranges.h>

#include <boost/asio/co_spawn.hpp>
#include <exception>

#include "isthmus/base/error.h"
#include "isthmus/net/wakeup.h"

namespace isthmus::sidecar {
namespace {

using engine::Abilities;
using engine::EngineState;
using net::Task;

// What the branches of OnAll share.
struct Fork {
  explicit Fork(size_t count) : running(count), failures(count) {}
  size_t running;
  std::vector<std::exception_ptr> failures;
  net::Wakeup ended;
};

}  // namespace

EngineGroup::EngineGroup(net::Loop& loop, std::vector<std::unique_ptr<engine::Engine>> engines)
    : loop_(loop), engines_(std::move(engines)) {
  if (engines_.empty()) Throw(ErrorCode::kInvalid, "read --engine: an island needs at least one");
}

std::string EngineGroup::names() const {
  std::vector<std::string> names;
  names.reserve(engines_.size());
  for (const auto& engine : engines_) names.push_back(engine->name());
  return fmt::format("{}", fmt::join(names, ", "));
}

// Whatever else an adapter runs into (no memory, no descriptors) is a failed call too.
Task<void> EngineGroup::OnOne(Step& step, size_t index) {
  std::string problem;
  try {
    co_return co_await step(index);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  Throw(ErrorCode::kUnavailable, "{}: {}", engines_[index]->name(), problem);
}

// A single engine needs no fork.
Task<void> EngineGroup::OnAll(Step step) {
  if (engines_.size() == 1) co_return co_await OnOne(step, 0);
  auto fork = std::make_shared<Fork>(engines_.size());
  auto shared_step = std::make_shared<Step>(std::move(step));
  for (size_t i = 0; i < engines_.size(); ++i) {
    net::asio::co_spawn(
        loop_.get_executor(), [this, shared_step, i] { return OnOne(*shared_step, i); },
        [fork, shared_step, i](std::exception_ptr failure) {
          fork->failures[i] = std::move(failure);
          if (--fork->running == 0) fork->ended.Fire();
        });
  }
  while (fork->running > 0) co_await fork->ended.Wait();
  for (const std::exception_ptr& failure : fork->failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

Task<Abilities> EngineGroup::Probe() {
  std::vector<Abilities> found(engines_.size());
  co_await OnAll(
      [this, &found](size_t i) -> Task<void> { found[i] = co_await engines_[i]->Probe(); });
  Abilities all = found.front();
  for (size_t i = 1; i < found.size(); ++i) {
    all.keeps = all.keeps && found[i].keeps;
    all.labels = all.labels && found[i].labels;
    all.tells_pause = all.tells_pause && found[i].tells_pause;
    all.generates = all.generates && found[i].generates;
    if (found[i].salt_field == all.salt_field) continue;
    Throw(ErrorCode::kInvalid,
          "probe {}: cached prefixes are kept apart by \"{}\" there and by \"{}\" at {}; the "
          "engines of an island must be alike",
          engines_[i]->name(), found[i].salt_field, all.salt_field, engines_.front()->name());
  }
  co_return all;
}

Task<std::vector<EngineState>> EngineGroup::Inspect() {
  std::vector<EngineState> found(engines_.size());
  co_await OnAll(
      [this, &found](size_t i) -> Task<void> { found[i] = co_await engines_[i]->Inspect(); });
  co_return found;
}

Task<void> EngineGroup::Settle() {
  co_await OnAll([this](size_t i) { return engines_[i]->Settle(); });
}
Task<void> EngineGroup::Pause(engine::PauseMode mode) {
  co_await OnAll([this, mode](size_t i) { return engines_[i]->Pause(mode); });
}
Task<void> EngineGroup::Load(const fs::path& checkpoint, const std::string& label) {
  co_await OnAll([&](size_t i) { return engines_[i]->Load(checkpoint, label); });
}
Task<std::string> EngineGroup::Learn(const fs::path& checkpoint, const std::string& digest) {
  std::vector<std::string> reasons(engines_.size());
  co_await OnAll([&](size_t i) -> Task<void> {
    reasons[i] = co_await engines_[i]->Learn(checkpoint, digest);
  });
  for (std::string& reason : reasons) {
    if (!reason.empty()) co_return std::move(reason);
  }
  co_return "";
}
Task<void> EngineGroup::PrepareChanges(const engine::Changes& step) {
  co_await OnAll([&](size_t i) { return engines_[i]->PrepareChanges(step); });
}
Task<void> EngineGroup::LoadChanges(const std::vector<engine::Changes>& steps) {
  co_await OnAll([&](size_t i) { return engines_[i]->LoadChanges(steps); });
}
Task<void> EngineGroup::Flush() {
  co_await OnAll([this](size_t i) { return engines_[i]->Flush(); });
}
Task<void> EngineGroup::Verify(const std::string& label) {
  co_await OnAll([&](size_t i) { return engines_[i]->Verify(label); });
}
Task<void> EngineGroup::Resume() {
  co_await OnAll([this](size_t i) { return engines_[i]->Resume(); });
}
Task<std::vector<std::optional<double>>> EngineGroup::Canary() {
  std::vector<std::optional<double>> found(engines_.size());
  co_await OnAll(
      [this, &found](size_t i) -> Task<void> { found[i] = co_await engines_[i]->Canary(); });
  co_return found;
}

}  // namespace isthmus::sidecar
