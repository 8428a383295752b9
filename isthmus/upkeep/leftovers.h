// Objects that nothing names: of publishers that died, or of uploads that still go on. Stores do
// not say how old an object is, so cleaning remembers since when it has seen each.
#ifndef ISTHMUS_UPKEEP_LEFTOVERS_H_
#define ISTHMUS_UPKEEP_LEFTOVERS_H_

#include <map>
#include <string>

#include "isthmus/board/board.h"

namespace isthmus::upkeep {

// By attempt, as Inventory::leftovers: when cleaning saw it first.
using SeenLeftovers = std::map<std::string, WallTime>;

// Empty if nothing was remembered, or it cannot be read: then everything waits once more.
SeenLeftovers ReadLeftovers(const board::Board& board, const std::string& run);
void WriteLeftovers(board::Board& board, const std::string& run, const SeenLeftovers& seen);

}  // namespace isthmus::upkeep

#endif  // ISTHMUS_UPKEEP_LEFTOVERS_H_
