#include "isthmus/gateway/staleness.h"

#include <algorithm>

namespace isthmus::gateway {

size_t LagHistogram::BucketOf(uint64_t lag) {
  return static_cast<size_t>(std::ranges::lower_bound(kBounds, lag) - kBounds.begin());
}

void Staleness::Observe(std::string_view run, std::string_view session, uint64_t lag_start,
                        uint64_t lag_end) {
  RunStaleness& staleness = Run(run);
  staleness.start.Add(lag_start);
  staleness.end.Add(lag_end);
  if (session.empty()) return;
  ObserveSession(staleness, std::string(run).append("/").append(session),
                 std::max(lag_start, lag_end));
}

RunStaleness& Staleness::Run(std::string_view run) {
  const auto found = runs_.find(run);
  if (found != runs_.end()) return found->second;
  return runs_[runs_.size() < kMaxRuns ? std::string(run) : "other"];
}

void Staleness::ObserveSession(RunStaleness& run, std::string name, uint64_t lag) {
  const auto found = sessions_.find(name);
  if (found != sessions_.end()) {
    Session& session = *found->second;
    recent_.splice(recent_.begin(), recent_, found->second);
    if (lag <= session.worst) return;
    run.sessions.Take(session.worst);
    run.sessions.Add(session.worst = lag);
    return;
  }
  recent_.push_front({std::move(name), &run, lag});
  sessions_.emplace(recent_.front().name, recent_.begin());
  run.sessions.Add(lag);
  if (recent_.size() <= kMaxSessions) return;
  recent_.back().run->sessions.Take(recent_.back().worst);
  sessions_.erase(recent_.back().name);
  recent_.pop_back();
}

}  // namespace isthmus::gateway
