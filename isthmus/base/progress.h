// How long work tells how far it is.
#ifndef ISTHMUS_BASE_PROGRESS_H_
#define ISTHMUS_BASE_PROGRESS_H_

#include <cstdint>
#include <exception>
#include <string_view>

namespace isthmus {

// Thrown by a Progress to end the work. No Error, so that nobody takes it for a failure that has
// another way around it.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped"; }
};

// Receives the progress of one piece of work after another. Advance is called from many threads
// at once; Begin and End from one. Implementations throw nothing but Stopped, from Begin or Advance
// and once in a piece of work: then it ends as after a failure, what was begun is taken back.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void Begin(std::string_view label, uint64_t total_bytes) = 0;
  virtual void Advance(uint64_t bytes) = 0;
  virtual void End() = 0;
};

// Shows nothing.
class SilentProgress final : public Progress {
 public:
  void Begin(std::string_view /*label*/, uint64_t /*total_bytes*/) override {}
  void Advance(uint64_t /*bytes*/) override {}
  void End() override {}
};

// One piece of work, ended on every way out.
class ProgressScope {
 public:
  ProgressScope(Progress& progress, std::string_view label, uint64_t total_bytes)
      : progress_(progress) {
    progress_.Begin(label, total_bytes);
  }
  ~ProgressScope() { progress_.End(); }
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;

 private:
  Progress& progress_;
};

// A SilentProgress that lives for the whole program.
Progress& NoProgress();

}  // namespace isthmus

#endif  // ISTHMUS_BASE_PROGRESS_H_
