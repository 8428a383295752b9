// Removes what nobody needs from a run (docs/board.md, "Cleaning").
#ifndef ISTHMUS_UPKEEP_CLEANING_H_
#define ISTHMUS_UPKEEP_CLEANING_H_

#include <string>
#include <vector>

#include "isthmus/upkeep/retention.h"

namespace isthmus::upkeep {

struct CleaningPolicy {
  RetentionPolicy retention;
  // How long an object that nothing names must have been seen before it is removed: longer than any
  // upload takes.
  std::chrono::seconds grace = std::chrono::hours(24);
  bool apply = false;  // else nothing is changed
};

struct CleaningReport {
  std::vector<board::VersionNumber> kept;
  uint64_t payloads_removed = 0;
  uint64_t objects_removed = 0;
  uint64_t bytes_removed = 0;  // of payloads; the sizes of leftovers are not known
  uint64_t leftovers = 0;      // objects that nothing names, those that wait too
  uint64_t leftovers_removed = 0;
  std::vector<std::string> pins_removed;  // expired
  std::vector<std::string> unexplained;   // left alone
};

// Plans, proves that every kept version can be rebuilt (each part of its chain is there, with its
// size), and only then removes; proves it again afterwards. Without `apply` it says what it would
// do. Safe beside publishers and readers: it looks only at versions that exist, the newest stays,
// and a reader whose chain goes finds another. kCorrupt, and nothing changed: the log is damaged or
// a version that should stay cannot be rebuilt. `now`: the caller's clock.
CleaningReport Clean(board::Board& board, const std::string& run, const CleaningPolicy& policy,
                     WallTime now, ThreadPool& pool, Progress& progress);

}  // namespace isthmus::upkeep

#endif  // ISTHMUS_UPKEEP_CLEANING_H_
