// Which log entries a pull reads: few, if versions have payloads that skip many.
#ifndef ISTHMUS_REPLICA_CHAIN_MANIFESTS_H_
#define ISTHMUS_REPLICA_CHAIN_MANIFESTS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "isthmus/board/board.h"
#include "isthmus/board/extra.h"
#include "isthmus/board/kept.h"
#include "isthmus/replica/planner.h"

namespace isthmus::replica {

// Reads each entry once, so that all of a pull's attempts see the same payloads in the same places:
// those of the manifest, then those added later, by kind and base. The board must outlive it. Not
// thread-safe.
class ChainManifests {
 public:
  using Manifests = std::vector<board::Manifest>;  // newest first

  // `held`: kNoVersion for nothing; `held_digest` is its digest.
  ChainManifests(const board::Board& board, std::string run, board::VersionNumber target,
                 board::VersionNumber held, const Sha256Digest& held_digest);

  // Those on the way back from the target along the longest patches, by way of the newest anchor,
  // to the held version; without one on its way, to that anchor. kNotFound if there is no target,
  // kCorrupt if the held version's digest is not the log's.
  Manifests OnShortestWay(const std::set<PlannedPayload>& unusable);
  // All from the target down to the `count`th that has an anchor, or to the first version; for when
  // the short way is blocked, so without the hint of what cleaning left.
  Manifests DownToAnchor(size_t count, const std::set<PlannedPayload>& unusable);

  // Payloads that cleaning has removed, by what its hint says: no part of the shortest way.
  const std::set<PlannedPayload>& gone() const { return gone_; }
  // What the user should know of payloads that could not be looked at.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  const board::Manifest* Read(board::VersionNumber version);
  board::Manifest ReadWithExtras(board::Manifest manifest);
  bool IsBlocked(const PlannedPayload& place, const std::set<PlannedPayload>& unusable) const;
  void ListExtras();
  board::VersionNumber NewestAnchor(const std::set<PlannedPayload>& unusable);

  const board::Board& board_;
  std::string run_;
  board::VersionNumber target_;
  board::VersionNumber held_;
  Sha256Digest held_digest_;
  std::optional<std::vector<board::Extra>> extras_;
  board::Kept kept_;
  std::set<PlannedPayload> gone_;
  std::map<board::VersionNumber, std::optional<board::Manifest>> read_;
  std::vector<std::string> notes_;
};

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_CHAIN_MANIFESTS_H_
