#include "isthmus/relay/watch_hub.h"

#include <algorithm>

#include "isthmus/base/clock.h"

namespace isthmus::relay {

using board::kNoVersion;
using board::VersionNumber;
using net::Milliseconds;

// Counts one who waits while it lives.
class WatchHub::Watcher {
 public:
  Watcher(WatchHub& hub, std::shared_ptr<Run> run) : hub_(hub), run_(std::move(run)) {
    ++run_->watchers;
    ++hub_.watchers_;
  }
  ~Watcher() {
    --run_->watchers;
    --hub_.watchers_;
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  WatchHub& hub_;
  std::shared_ptr<Run> run_;
};

std::shared_ptr<WatchHub::Run> WatchHub::Join(const std::string& name) {
  const auto found = runs_.find(name);
  if (found != runs_.end()) return found->second;
  if (runs_.size() >= kMaxRuns) {
    Throw(ErrorCode::kUnavailable, "watch run {}: {} runs are watched, no more are", name,
          kMaxRuns);
  }
  auto run = std::make_shared<Run>();
  runs_[name] = run;
  return run;
}

net::Task<VersionNumber> WatchHub::Wait(std::string name, VersionNumber after,
                                        Milliseconds timeout) {
  const MonotonicTime begin = MonotonicNow();
  const std::shared_ptr<Run> run = Join(name);
  const bool first = !run->polled;
  const Watcher watcher(*this, run);
  if (first) {
    run->polled = true;
    errands_.Begin(Poll(std::move(name), run));
  }
  while (!stopped_) {
    if (run->version > after) co_return run->version;
    const Milliseconds limit = run->answered ? timeout : std::max(timeout, kFirstAnswer);
    const MonotonicTime now = MonotonicNow();
    if (now - begin >= limit) break;
    co_await run->changed.Wait(
        std::chrono::ceil<Milliseconds>(limit - std::chrono::nanoseconds(now - begin)));
  }
  if (stopped_) co_return kNoVersion;
  if (run->failure) throw Error(*run->failure);
  if (!run->answered) {
    Throw(ErrorCode::kUnavailable, "watch: no answer of the origin within {} ms",
          kFirstAnswer.count());
  }
  co_return kNoVersion;
}

net::Task<void> WatchHub::AskOnce(const std::string& name, Run& run) {
  ++questions_;
  try {
    const VersionNumber version = co_await options_.ask(name);
    run.failure.reset();
    if (version > run.version) {
      run.version = version;
      options_.on_news(name);
    }
  } catch (const Error& error) {
    run.failure = error;
  }
  run.answered = true;
  run.changed.Ring();
}

// Goes on for one interval after the last one has left, so that those who come and go do not make
// it ask more often.
net::Task<void> WatchHub::Poll(std::string name, std::shared_ptr<Run> run) {
  while (run->watchers > 0 && !stopped_) {
    co_await AskOnce(name, *run);
    if (!stopped_) co_await stop_.Wait(options_.poll);
  }
  runs_.erase(name);
}

void WatchHub::Stop() {
  stopped_ = true;
  stop_.Ring();
  for (const auto& [name, run] : runs_) run->changed.Ring();
}

}  // namespace isthmus::relay
