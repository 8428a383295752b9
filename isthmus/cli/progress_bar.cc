#include "isthmus/cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "isthmus/cli/output.h"

namespace isthmus::cli {
namespace {

constexpr size_t kBarWidth = 30;
// Redrawn at most ten times a second.
constexpr auto kTick = std::chrono::milliseconds(100);

}  // namespace

void ProgressBar::Begin(std::string_view label, uint64_t total_bytes) {
  label_ = label;
  total_bytes_ = total_bytes;
  start_ = SystemClock().Monotonic();
  done_bytes_ = 0;
  last_drawn_tick_ = 0;
}

void ProgressBar::Advance(uint64_t bytes) {
  const uint64_t done = done_bytes_ += bytes;
  const int64_t tick = (SystemClock().Monotonic() - start_) / kTick;
  int64_t last = last_drawn_tick_;
  // Of the threads that find a new tick, one draws.
  if (tick > last && last_drawn_tick_.compare_exchange_strong(last, tick)) Draw(done);
}

void ProgressBar::End() {
  if (last_drawn_tick_ > 0) fmt::print(stderr, "\r\x1b[K");
}

void ProgressBar::Draw(uint64_t done) const {
  const double fraction =
      total_bytes_ == 0
          ? 1.0
          : std::min(1.0, static_cast<double>(done) / static_cast<double>(total_bytes_));
  const auto filled = static_cast<size_t>(fraction * kBarWidth);
  const double seconds = SecondsSince(start_);
  fmt::print(stderr, "\r{:<8} [{:<{}}] {:3.0f} %  {}/s\x1b[K", label_, std::string(filled, '#'),
             kBarWidth, fraction * 100,
             FormatBytes(static_cast<uint64_t>(static_cast<double>(done) / seconds)));
}

std::unique_ptr<Progress> MakeProgress() {
  if (::isatty(STDERR_FILENO) == 1) return std::make_unique<ProgressBar>();
  return std::make_unique<SilentProgress>();
}

}  // namespace isthmus::cli
