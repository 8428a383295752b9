#include "isthmus/sim/engine.h"

#include <algorithm>

namespace isthmus::sim {

void Engine::Add(uint32_t request, double tokens, SimTime now) {
  queue_.push_back({request, tokens});
  Share(now);
}

bool Engine::Remove(uint32_t request, SimTime now) {
  const auto queued = std::ranges::find(queue_, request, &Queued::request);
  if (queued != queue_.end()) {
    queue_.erase(queued);
    return true;
  }
  const auto tokens = running_.Remove(request, now);
  if (!tokens) return false;
  wasted_tokens_ += *tokens;
  Share(now);
  return true;
}

void Engine::Clear(SimTime now) {
  queue_.clear();
  for (const uint32_t request : running_.Keys()) {
    wasted_tokens_ += running_.Remove(request, now).value_or(0);
  }
  Share(now);
}

void Engine::Pause(SimTime now) {
  paused_ = true;
  Share(now);
}

void Engine::Resume(SimTime now) {
  paused_ = false;
  Share(now);
}

std::optional<uint32_t> Engine::PopEnded(SimTime now) {
  const auto request = running_.PopEnded(now);
  if (request) Share(now);
  return request;
}

void Engine::Share(SimTime now) {
  while (!queue_.empty() && running_.size() < facts_->slots) {
    running_.Add(queue_.front().request, queue_.front().tokens, now);
    queue_.pop_front();
  }
  const auto count = static_cast<double>(std::max<size_t>(running_.size(), 1));
  const double rate = std::min(facts_->tokens_per_s / count, facts_->request_tokens_per_s);
  running_.SetRate(paused_ ? 0 : rate, now);
}

}  // namespace isthmus::sim
