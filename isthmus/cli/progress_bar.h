// A progress bar on standard error, only when that is a terminal.
#ifndef ISTHMUS_CLI_PROGRESS_BAR_H_
#define ISTHMUS_CLI_PROGRESS_BAR_H_

#include <atomic>
#include <memory>
#include <string>

#include "isthmus/base/clock.h"
#include "isthmus/base/progress.h"

namespace isthmus::cli {

class ProgressBar final : public Progress {
 public:
  void Begin(std::string_view label, uint64_t total_bytes) override;
  void Advance(uint64_t bytes) override;
  void End() override;

 private:
  void Draw(uint64_t done) const;

  std::string label_;
  uint64_t total_bytes_ = 0;
  MonotonicTime start_;
  std::atomic<uint64_t> done_bytes_ = 0;
  std::atomic<int64_t> last_drawn_tick_ = 0;
};

// A bar if standard error is a terminal, else nothing.
std::unique_ptr<Progress> MakeProgress();

}  // namespace isthmus::cli

#endif  // ISTHMUS_CLI_PROGRESS_BAR_H_
