#include "isthmus/base/clock.h"

#include <fmt/format.h>
#include <time.h>

#include <cstdio>

#include "isthmus/base/error.h"

namespace isthmus {
namespace {

using std::chrono::milliseconds;

class MachineClock final : public Clock {
 public:
  WallTime Now() const override { return std::chrono::system_clock::now(); }
  MonotonicTime Monotonic() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace

const Clock& SystemClock() {
  static const MachineClock clock;
  return clock;
}

std::string FormatTime(WallTime time) {
  const auto since_epoch = std::chrono::floor<milliseconds>(time).time_since_epoch().count();
  const time_t seconds =
      static_cast<time_t>((since_epoch - ((since_epoch % 1000) + 1000) % 1000) / 1000);
  tm parts;
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     ((since_epoch % 1000) + 1000) % 1000);
}

WallTime ParseTime(const std::string& text) {
  tm parts = {};
  int millis = 0;
  char end = 0;
  const int fields =
      std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3d%c", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &millis, &end);
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  // What fits nanoseconds in 64 bits, less a second for the milliseconds.
  constexpr time_t kMaxSeconds =
      std::chrono::duration_cast<std::chrono::seconds>(WallTime::duration::max()).count() - 1;
  const time_t seconds = timegm(&parts);
  const bool in_range = -kMaxSeconds <= seconds && seconds <= kMaxSeconds;
  const WallTime time = in_range
                            ? std::chrono::system_clock::from_time_t(seconds) + milliseconds(millis)
                            : WallTime();
  // Formatting what was read must give the text again: this refuses every other form and range.
  if (fields != 8 || end != 'Z' || FormatTime(time) != text) {
    Throw(ErrorCode::kCorrupt, "read time {:?}: expected the form 2026-01-31T09:30:00.250Z",
          text.substr(0, 64));
  }
  return time;
}

MonotonicTime MonotonicNow() { return SystemClock().Monotonic(); }

double SecondsSince(MonotonicTime start, const Clock& clock) {
  return std::chrono::duration<double>(clock.Monotonic() - start).count();
}

}  // namespace isthmus
