// Everything that a run has on its board, sorted by what it is.
#ifndef ISTHMUS_UPKEEP_INVENTORY_H_
#define ISTHMUS_UPKEEP_INVENTORY_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/board/extra.h"
#include "isthmus/board/pin.h"

namespace isthmus::upkeep {

struct Inventory {
  board::VersionNumber head = board::kNoVersion;
  std::map<board::VersionNumber, board::Manifest> manifests;
  std::map<board::Extra, board::Payload> extras;
  std::vector<board::Pin> pins;
  std::set<std::string> forked;  // objects under data/ that other runs begin with
  // Why it is not known what other runs begin with; empty if it is. No damage of this run.
  std::string forks_problem;
  std::set<std::string> objects;  // all under data/ that are there
  // Of these the ones that no log entry, no added payload and no fork names, by the attempt that
  // stored them ("runs/<run>/data/<version>/<attempt>/").
  std::map<std::string, std::vector<std::string>> leftovers;
  std::vector<std::string> unexplained;  // keys of no known form
  std::vector<std::string> problems;     // of entries that are missing or cannot be read

  // The manifests, oldest first, each with the payloads that were added later behind its own.
  std::vector<board::Manifest> WithExtras() const;
};

// Lists the run and reads its log, what was added, and what other runs begin with. kNotFound if
// there is no such run. Damage becomes a problem; a store that is away throws.
Inventory TakeInventory(const board::Board& board, const std::string& run, ThreadPool& pool,
                        Progress& progress);

}  // namespace isthmus::upkeep

#endif  // ISTHMUS_UPKEEP_INVENTORY_H_
