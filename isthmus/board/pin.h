// Readers' claims on versions (docs/board.md, "Pins"): retention keeps what is pinned.
#ifndef ISTHMUS_BOARD_PIN_H_
#define ISTHMUS_BOARD_PIN_H_

#include <string>
#include <vector>

#include "isthmus/board/board.h"

namespace isthmus::board {

struct Pin {
  std::string name;  // of the same form as a run's name
  VersionNumber version = kNoVersion;
  WallTime expires_at;
};

// Creates or replaces the pin of this name. kNotFound if there is no such version, kInvalid for
// such a name.
void PutPin(Board& board, const std::string& run, const Pin& pin);
// False if there was none.
bool RemovePin(Board& board, const std::string& run, const std::string& name);
// All that the run has, those that have expired too, by name. A pin that cannot be read is
// kCorrupt: retention must not go on without it.
std::vector<Pin> ListPins(const Board& board, const std::string& run);

}  // namespace isthmus::board

#endif  // ISTHMUS_BOARD_PIN_H_
