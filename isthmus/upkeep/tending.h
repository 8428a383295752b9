// Keeps a run quick to join while it grows: anchors, and skip patches from the newest of them
// (docs/board.md, "Tending").
#ifndef ISTHMUS_UPKEEP_TENDING_H_
#define ISTHMUS_UPKEEP_TENDING_H_

#include <string>
#include <vector>

#include "isthmus/replica/replica.h"

namespace isthmus::upkeep {

struct TendPolicy {
  // A skip patch every so many versions: who joins applies fewer patches than that, and one.
  uint64_t skip_every = 8;
  // An anchor when the patches since the last one are this part of a checkpoint: at most so much
  // more than a checkpoint is fetched by who joins.
  double anchor_at = 0.25;
  // And after so many versions at the latest.
  uint64_t most_between = 1024;
  uint64_t part_bytes = uint64_t{64} << 20;  // as PublishOptions
};

struct TendReport {
  std::vector<std::string> added;  // "anchor 65", "patch 73 from 65"
  uint64_t stored_bytes = 0;
  std::vector<std::string> notes;
};

// Works beside publishers, in a directory of its own: a replica at the version that the next skip
// patches begin at. The board, the pool and the progress must outlive it. Not thread-safe.
class Tender {
 public:
  // Errors as Replica. kInvalid for a policy that makes no sense.
  Tender(board::Board& board, std::string run, const fs::path& directory, const TendPolicy& policy,
         ThreadPool& pool, Progress& progress);

  // Adds what the versions up to the head should have and do not. What fails leaves the board as
  // it was, or with fewer additions; the next call goes on from there.
  TendReport Tend();

 private:
  board::VersionNumber Base() const;
  void MoveBase(board::VersionNumber version, TendReport* report);
  void FindWhatIsThere(board::VersionNumber head, TendReport* report);
  void AddAnchorAt(board::VersionNumber version, TendReport* report);
  void AddSkipTo(const board::Manifest& manifest, TendReport* report);

  board::Board& board_;
  std::string run_;
  TendPolicy policy_;
  ThreadPool& pool_;
  Progress& progress_;
  replica::Replica base_;
  // The newest version with a skip patch from the base. Older ones may have been cleaned.
  board::VersionNumber skipped_to_ = board::kNoVersion;
  // So far since the base: the version looked at last, and the bytes of patches up to it.
  board::VersionNumber looked_at_ = board::kNoVersion;
  uint64_t bytes_ = 0;
};

}  // namespace isthmus::upkeep

#endif  // ISTHMUS_UPKEEP_TENDING_H_
