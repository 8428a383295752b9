// A program that runs beside the loop.
#ifndef ISTHMUS_ENGINE_PROGRAM_H_
#define ISTHMUS_ENGINE_PROGRAM_H_

#include <memory>
#include <string>
#include <vector>

#include "isthmus/net/task.h"

namespace isthmus::engine {

using net::Task;

// A child process that leads a process group of its own, so that whatever it starts can be ended
// with it. It has this process's environment and working directory, no signal blocked or ignored,
// and no file but these: standard input and output are /dev/null, standard error is read here for
// as long as this object lives. Needs Linux 5.3 (pidfd_open).
class Program {
 public:
  // Starts `command[0]`, a path, with the rest as its arguments; no shell. kInvalid if it cannot.
  Program(net::Loop& loop, const std::vector<std::string>& command);
  // Kills the group if the program has not ended, and does not wait for that.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Returns when the program itself has ended. A cancelled Wait may be repeated.
  Task<void> Wait();
  // Sends a signal to the whole group. What the program then leaves of its group when it ends is
  // killed: after a Wait that returns nothing of it is there. Does nothing once it has ended.
  void End(int signal);

  // After Wait. "exited with status 3", "was ended by signal 9".
  std::string HowItEnded() const;
  bool succeeded() const;
  // The last line with anything on it that came on standard error, empty if none did.
  std::string LastLine() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace isthmus::engine

#endif  // ISTHMUS_ENGINE_PROGRAM_H_
