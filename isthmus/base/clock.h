// Time: a port, so that tests run on a clock of their own.
#ifndef ISTHMUS_BASE_CLOCK_H_
#define ISTHMUS_BASE_CLOCK_H_

#include <chrono>
#include <string>

namespace isthmus {

using WallTime = std::chrono::system_clock::time_point;
using MonotonicTime = std::chrono::steady_clock::time_point;

// Implementations are thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime Now() const = 0;             // what is written down
  virtual MonotonicTime Monotonic() const = 0;  // what durations are measured with
};

// The machine's clocks. Lives for the whole program.
const Clock& SystemClock();
MonotonicTime MonotonicNow();  // by SystemClock()

// RFC 3339 in UTC with milliseconds, for example "2026-01-31T09:30:00.250Z", and back.
// ParseTime throws kCorrupt for any other form.
std::string FormatTime(WallTime time);
WallTime ParseTime(const std::string& text);

// Seconds between a reading and now.
double SecondsSince(MonotonicTime start, const Clock& clock = SystemClock());

}  // namespace isthmus

#endif  // ISTHMUS_BASE_CLOCK_H_
