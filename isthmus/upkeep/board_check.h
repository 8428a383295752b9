// Whether a run's objects are what its log says.
#ifndef ISTHMUS_UPKEEP_BOARD_CHECK_H_
#define ISTHMUS_UPKEEP_BOARD_CHECK_H_

#include <string>
#include <vector>

#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/board/board.h"

namespace isthmus::upkeep {

struct CheckOptions {
  bool deep = false;                          // read every object, not only its size
  std::vector<board::VersionNumber> rebuild;  // from nothing, in a temporary directory
};

struct CheckReport {
  std::vector<std::string> problems;
  std::vector<std::string>
      notes;  // what is no damage: objects that nothing names, cleaned versions
};

// Walks the log and what was added to it. kNotFound: no such run. A store that is away, or no room
// for what is rebuilt, throws; damage is reported.
CheckReport CheckBoard(const board::Board& board, const std::string& run,
                       const CheckOptions& options, ThreadPool& pool, Progress& progress);

}  // namespace isthmus::upkeep

#endif  // ISTHMUS_UPKEEP_BOARD_CHECK_H_
