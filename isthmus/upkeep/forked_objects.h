// Objects of a run that other runs begin with (docs/board.md, "Forks").
#ifndef ISTHMUS_UPKEEP_FORKED_OBJECTS_H_
#define ISTHMUS_UPKEEP_FORKED_OBJECTS_H_

#include <set>
#include <string>

#include "isthmus/base/thread_pool.h"
#include "isthmus/board/board.h"

namespace isthmus::upkeep {

// The keys under the run's data/ that the first log entries of other runs name. Signatures are not
// asked for: an entry that nobody trusts can keep objects, and nothing else. kCorrupt or kInvalid
// if one of these entries cannot be read: then nobody knows what it needs.
std::set<std::string> ForkedObjects(const board::Board& board, const std::string& run,
                                    ThreadPool& pool);

}  // namespace isthmus::upkeep

#endif  // ISTHMUS_UPKEEP_FORKED_OBJECTS_H_
