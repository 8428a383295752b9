// What cleaning left of a run (docs/board.md, "Cleaning"): a hint that saves readers from looking
// for payloads that are gone.
#ifndef ISTHMUS_BOARD_KEPT_H_
#define ISTHMUS_BOARD_KEPT_H_

#include <optional>
#include <string>
#include <vector>

#include "isthmus/board/board.h"

namespace isthmus::board {

struct Kept {
  VersionNumber through = kNoVersion;   // nothing is said of versions after this one
  std::vector<VersionNumber> versions;  // ascending: those whose log entry's payloads are there

  // Whether the payloads that the version's log entry names may be there.
  bool MayHave(VersionNumber version) const;
};

// Everything may be there, if nothing was cleaned or the hint cannot be read.
Kept ReadKept(const Board& board, const std::string& run);
void WriteKept(Board& board, const std::string& run, const Kept& kept);

}  // namespace isthmus::board

#endif  // ISTHMUS_BOARD_KEPT_H_
