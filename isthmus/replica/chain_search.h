// Chains that lead to a version, one after another until one can be used.
#ifndef ISTHMUS_REPLICA_CHAIN_SEARCH_H_
#define ISTHMUS_REPLICA_CHAIN_SEARCH_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/board/board.h"
#include "isthmus/replica/chain_manifests.h"
#include "isthmus/replica/planner.h"

namespace isthmus::replica {

// The board must outlive it. Not thread-safe.
class ChainSearch {
 public:
  ChainSearch(const board::Board& board, std::string run, board::VersionNumber target)
      : board_(board), run_(std::move(run)), target_(target) {}

  // The cheapest chain from what is held (kNoVersion: nothing; then `held_digest` does not matter)
  // that uses no payload that was blamed. If none is left because objects are missing, the board is
  // read once more; then: the error that blamed the last one, or kNotFound.
  const Plan& Next(board::VersionNumber held, const Sha256Digest& held_digest);
  // A payload cannot be used, for this reason.
  void Blame(const PlannedPayload& payload, const Error& why);
  // So the next chain's failure is about this.
  void Remember(const Error& why) { failure_.emplace(why); }

  // Of the chain that Next returned.
  const board::Manifest& ManifestOf(board::VersionNumber version) const;
  const board::Payload& PayloadOf(const PlannedPayload& planned) const;
  // "anchor 3", "patch 9 from 3"
  std::string Describe(const PlannedPayload& planned) const;
  // The log entries that were read for it.
  const std::vector<board::Manifest>& manifests() const { return manifests_; }
  // What the user should know of payloads that could not be looked at.
  const std::vector<std::string>& notes() const { return source_->notes(); }

 private:
  void LookAgain();
  [[noreturn]] void GiveUp(board::VersionNumber held) const;

  const board::Board& board_;
  std::string run_;
  board::VersionNumber target_;
  std::set<PlannedPayload> unusable_;
  std::optional<Error> failure_;
  std::optional<ChainManifests> source_;
  size_t anchors_ = 0;  // to look down to; 0: the shortest way
  size_t seen_ = 0;     // entries, when the last anchor was reached
  bool looked_again_ = false;
  std::vector<board::Manifest> manifests_;
  Plan plan_;
};

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_CHAIN_SEARCH_H_
