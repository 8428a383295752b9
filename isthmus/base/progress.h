// How long work tells how far it is.
#ifndef ISTHMUS_BASE_PROGRESS_H_
#define ISTHMUS_BASE_PROGRESS_H_

#include <cstdint>
#include <string_view>

namespace isthmus {

// Receives the progress of one piece of work after another. Advance is called from many threads
// at once; Begin and End from one. Implementations never throw.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void Begin(std::string_view label, uint64_t total_bytes) = 0;
  virtual void Advance(uint64_t bytes) = 0;
  virtual void End() = 0;
};

// Shows nothing. Lives for the whole program.
Progress& NoProgress();

}  // namespace isthmus

#endif  // ISTHMUS_BASE_PROGRESS_H_
