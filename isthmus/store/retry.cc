#include "isthmus/store/retry.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace isthmus::store {
namespace {

using std::chrono::milliseconds;

// A try with less time would fail for that, and hide why the ones before it failed.
constexpr milliseconds kLeastTry(100);

// Of bounds far below 2^64 the remainder is as good as uniform.
milliseconds UpTo(milliseconds bound, RandomSource& random) {
  std::array<std::byte, 8> bytes{};
  random.Fill(bytes);
  const auto range = static_cast<uint64_t>(bound.count()) + 1;
  return milliseconds(static_cast<milliseconds::rep>(LoadLe<uint64_t>(bytes.data()) % range));
}

}  // namespace

Retries::Retries(const RetryLimits& limits, const Clock& clock, RandomSource& random)
    : limits_(limits),
      clock_(clock),
      random_(random),
      deadline_(clock.Monotonic() + limits.deadline),
      bound_(limits.first_delay) {}

milliseconds Retries::left() const {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline_ - clock_.Monotonic());
  return std::max(left, milliseconds(0));
}

std::optional<milliseconds> Retries::Next(milliseconds asked) {
  const milliseconds rest = left();
  if (rest <= kLeastTry || asked >= rest - kLeastTry) return std::nullopt;
  const milliseconds delay = UpTo(std::min(bound_, rest - kLeastTry), random_);
  bound_ = std::min(bound_ * 2, limits_.longest_delay);
  ++tries_;
  return std::max(delay, asked);
}

bool WaitUnlessStopped(milliseconds delay, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  never.wait_for(lock, stop, delay, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace isthmus::store
