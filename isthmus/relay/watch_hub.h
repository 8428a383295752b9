// Waiting for a run's next version: one who asks the origin for each run, however many wait.
#ifndef ISTHMUS_RELAY_WATCH_HUB_H_
#define ISTHMUS_RELAY_WATCH_HUB_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "isthmus/base/error.h"
#include "isthmus/board/manifest.h"
#include "isthmus/relay/errands.h"

namespace isthmus::relay {

// Used on its loop's thread only.
class WatchHub {
 public:
  struct Options {
    // The newest version of a run, kNoVersion for none. Throws Error.
    std::function<net::Task<board::VersionNumber>(std::string run)> ask;
    net::Milliseconds poll{500};  // between two questions about a run
    // Called when a run has a version above all that were known before.
    std::function<void(const std::string& run)> on_news;
  };
  static constexpr size_t kMaxRuns = 1000;
  // What a watch waits for the first answer about its run, if its own time is shorter.
  static constexpr net::Milliseconds kFirstAnswer{5000};

  WatchHub(Errands& errands, Options options) : errands_(errands), options_(std::move(options)) {}

  // The newest version above `after`, once there is one; kNoVersion after the timeout, or when the
  // hub was stopped. If the time is over and the last answer was a failure, that is thrown;
  // kUnavailable if too many runs are watched.
  net::Task<board::VersionNumber> Wait(std::string name, board::VersionNumber after,
                                       net::Milliseconds timeout);
  // Ends all waits and questions.
  void Stop();

  size_t watchers() const { return watchers_; }
  size_t runs() const { return runs_.size(); }
  uint64_t questions() const { return questions_; }

 private:
  struct Run {
    board::VersionNumber version = board::kNoVersion;
    bool polled = false;    // somebody asks for it
    bool answered = false;  // or failed
    std::optional<Error> failure;
    size_t watchers = 0;
    net::Bell changed;
  };
  class Watcher;

  std::shared_ptr<Run> Join(const std::string& name);
  net::Task<void> Poll(std::string name, std::shared_ptr<Run> run);
  net::Task<void> AskOnce(const std::string& name, Run& run);

  Errands& errands_;
  Options options_;
  std::map<std::string, std::shared_ptr<Run>> runs_;
  size_t watchers_ = 0;
  uint64_t questions_ = 0;
  bool stopped_ = false;
  net::Bell stop_;
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_WATCH_HUB_H_
